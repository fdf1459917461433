package gateway

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gorilla/websocket"

	"github.com/podagent/podagent/pkg/podapi"
)

// terminal is a WebSocket to a process with a terminal. The handler's goroutine waits for the end
// of the process, or until somebody leaves it, and says so. Beside it, one goroutine receives
// frames, one acknowledges input, the process's own writes the output, and a timer asks the caller
// for signs of life.
type terminal struct {
	call    *rawCall
	gateway *Gateway
	id      string               // the exec id
	own     bool                 // nobody else knows the id before start is sent
	stdin   Stdin                // as it was found
	size    *podapi.TerminalSize // to give to what was found, if not nil
	options podapi.AttachOptions

	conn    *websocket.Conn
	process *podapi.Process
	input   *io.PipeWriter // to the process
	next    int64          // the offset of the input that comes next; receive's
	offset  int64          // of the output that comes next; Write's
	sending sync.Mutex     // frames, but for pings

	mu     sync.Mutex
	cause  error // why the process was left, if it was
	ending bool  // the connection has its last deadline
	ping   *time.Timer
}

// Why a process is left, beside problems of the caller's frames and the gateway's end.
var (
	errLeft     = errors.New("the caller has left, or broken off")
	errTooLarge = errors.New("a frame was too large, as the caller was told")
)

// serve carries the terminal until its process ends, or somebody leaves it.
func (t *terminal) serve() error {
	defer t.conn.Close()
	if conn, ok := socketOf(t.conn.NetConn()).(interface{ SetWriteBuffer(int) error }); ok {
		_ = conn.SetWriteBuffer(socketBuffer)
	}
	err := t.event(TerminalEvent{Type: "start", ExecID: t.id, StdinOffset: &t.stdin.Offset, StdinOpen: &t.stdin.Open})
	if err != nil {
		t.abandon()
		return nil
	}
	// An HTTP server ends the request's context when a read fails, which is too soon for Detach.
	ctx, started := t.call.starting(true)
	defer started()
	in, input := io.Pipe()
	t.input, t.next = input, t.stdin.Offset
	t.options.Stdin, t.options.StdinOffset, t.options.Stdout, t.options.StdoutAt = in, &t.stdin.Offset, t, t.at
	t.process, err = t.call.sandbox.Attach(ctx, t.id, t.options)
	started()
	var all sync.WaitGroup
	defer all.Wait()
	if err != nil {
		all.Go(t.drain)
		return t.finish(nil, err)
	}
	if t.size != nil {
		_ = t.process.Resize(*t.size) // it has a terminal, and the size was checked
	}
	all.Go(func() {
		t.leave(t.receive())
		t.drain()
	})
	all.Go(func() { t.acknowledge(ctx, in) })
	defer context.AfterFunc(t.gateway.streams.closing, func() { t.leave(errClosing) })()
	t.askLater()
	err = t.process.Wait()
	in.Close()
	return t.finish(t.process.Status(), err)
}

// leave ends the attachment for a cause, after the process has got what input it can.
func (t *terminal) leave(cause error) {
	t.mu.Lock()
	if t.cause == nil {
		t.cause = cause
	}
	t.mu.Unlock()
	if cause == errLeft {
		t.conn.Close()
	} else { // output that is held up is not worth more time
		_ = t.conn.NetConn().SetWriteDeadline(time.Now().Add(farewell))
	}
	_ = t.process.Detach()
}

// receive takes the caller's frames, and returns why it takes no more.
func (t *terminal) receive() error {
	t.conn.SetReadLimit(frameLimit)
	t.conn.SetPongHandler(func(string) error { t.alive(); return nil })
	for {
		t.alive()
		kind, frame, err := t.conn.NextReader()
		switch {
		case err != nil:
		case kind == websocket.BinaryMessage:
			err = t.takeInput(frame)
		default:
			err = t.takeRequest(frame)
		}
		_, refused := errors.AsType[huma.StatusError](err)
		switch {
		case errors.Is(err, websocket.ErrReadLimit):
			return errTooLarge
		case refused:
			return err
		case err != nil:
			return errLeft
		}
	}
}

// drain reads what the caller sends until it closes the connection: closed with bytes unread, a
// connection would be reset, and the caller would not read its end.
func (t *terminal) drain() { _, _ = io.Copy(io.Discard, t.conn.NetConn()) }

// takeInput passes on the input of a frame. What the process does not take holds up the caller.
func (t *terminal) takeInput(frame io.Reader) error {
	var header [8]byte
	switch n, err := io.ReadFull(frame, header[:]); {
	case n < len(header) && (err == io.EOF || err == io.ErrUnexpectedEOF):
		return invalid("a binary frame must begin with an offset of 8 bytes")
	case err != nil:
		return err
	}
	offset := binary.BigEndian.Uint64(header[:])
	if offset > uint64(t.next) {
		return stdinGap(offset, t.next)
	}
	if _, err := io.CopyN(io.Discard, frame, t.next-int64(offset)); err != nil {
		if err == io.EOF {
			return nil // all of it was taken
		}
		return err
	}
	buffer := inputBuffers.Get().(*[inputBuffer]byte)
	defer inputBuffers.Put(buffer)
	for {
		n, err := frame.Read(buffer[:])
		t.next += int64(n)
		_, _ = t.input.Write(buffer[:n]) // a process that takes no more acknowledges no more
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

const inputBuffer = 4 << 10

var inputBuffers = sync.Pool{New: func() any { return new([inputBuffer]byte) }}

// takeRequest does what a text frame asks for.
func (t *terminal) takeRequest(frame io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(frame, controlLimit+1))
	if err != nil {
		return err
	}
	var r TerminalRequest
	if len(text) > controlLimit || json.Unmarshal(text, &r) != nil {
		return invalid("a text frame must be a request in JSON of up to %d bytes", controlLimit)
	}
	switch r.Type {
	case "resize":
		err = t.process.Resize(podapi.TerminalSize{Rows: r.Rows, Columns: r.Cols})
	case "signal":
		err = t.process.Signal(syscall.Signal(r.Signal))
	case "end":
		err = t.input.Close()
	default:
		return invalid("a request must be resize, signal or end")
	}
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return t.gateway.problem(t.call, err)
	}
	return nil
}

// acknowledge tells the caller how much input was taken, until no more is.
func (t *terminal) acknowledge(ctx context.Context, in *io.PipeReader) {
	for taken := t.stdin.Offset; ; {
		var err error
		if taken, err = t.process.StdinTaken(ctx, taken); err != nil {
			in.Close() // nobody reads it any more
			return
		}
		if t.event(TerminalEvent{Type: "ack", StdinOffset: &taken}) != nil {
			return
		}
	}
}

// at notes where the output goes on.
func (t *terminal) at(offset int64) { t.offset = offset }

// Write sends output. A caller that reads slowly holds up the process.
func (t *terminal) Write(p []byte) (int, error) {
	for sent := 0; sent < len(p); {
		part := p[sent:min(len(p), sent+frameLimit-8)]
		var header [8]byte
		binary.BigEndian.PutUint64(header[:], uint64(t.offset))
		if err := t.send(websocket.BinaryMessage, header[:], part); err != nil {
			return sent, fmt.Errorf("%w: %w", errLeft, err)
		}
		sent += len(part)
		t.offset += int64(len(part))
	}
	return len(p), nil
}

func (t *terminal) event(e TerminalEvent) error {
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return t.send(websocket.TextMessage, text)
}

// send sends a frame.
func (t *terminal) send(kind int, parts ...[]byte) error {
	t.sending.Lock()
	defer t.sending.Unlock()
	begun := time.Now()
	_ = t.conn.SetWriteDeadline(begun.Add(peerSilence))
	w, err := t.conn.NextWriter(kind)
	if err != nil {
		return err
	}
	for _, part := range parts {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	err = w.Close()
	if err == nil && time.Since(begun) > heldUp {
		t.alive() // it made room by reading, and will see the question for a sign of life late
	}
	return err
}

// heldUp is how long a frame takes that had to wait for its caller.
const heldUp = 10 * time.Millisecond

// alive notes that the caller is there.
func (t *terminal) alive() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ending {
		_ = t.conn.SetReadDeadline(time.Now().Add(peerSilence))
	}
}

// askLater asks the caller for a sign of life after some silence.
func (t *terminal) askLater() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ending {
		t.ping = time.AfterFunc(t.gateway.silence, t.ask)
	}
}

func (t *terminal) ask() {
	err := t.conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(silence))
	if e, ok := errors.AsType[net.Error](err); err != nil && (!ok || !e.Timeout()) {
		t.leave(errLeft) // receive may not see it: a process that takes no input holds it up
		return
	}
	t.askLater()
}

// finish says how the terminal has ended. Its error is that of a sandbox that answers no more.
func (t *terminal) finish(status *podapi.ExitStatus, err error) error {
	t.mu.Lock()
	cause := t.cause
	t.mu.Unlock()
	_, failed := errors.AsType[*podapi.ExitError](err)
	switch {
	case status != nil && (err == nil || failed):
		actOf(t.call).exited(status)
		exit := exitOf(t.id, *status)
		t.farewell(&TerminalEvent{Type: "exit", Exit: &exit}, websocket.CloseNormalClosure, "exit")
	case cause == errLeft || errors.Is(err, errLeft):
		t.end()
		t.conn.Close()
	case cause == errTooLarge:
		t.farewell(nil, 0, "")
	case cause == errClosing:
		t.farewell(nil, websocket.CloseGoingAway, errClosing.Error())
	case cause != nil:
		t.fail(cause)
	default:
		t.fail(err)
		if isSandboxGone(err) {
			return err
		}
	}
	return nil
}

// fail tells the caller a problem, as the end.
func (t *terminal) fail(err error) {
	p := problemOf(t.gateway.problem(t.call, err))
	t.farewell(&TerminalEvent{Type: "error", Problem: p}, 4000+p.Status, p.Class)
}

// farewell sends the last event and the code of the end, if there are any, and lets the caller
// read them.
func (t *terminal) farewell(last *TerminalEvent, code int, reason string) {
	if last != nil {
		_ = t.event(*last)
	}
	t.end()
	if code != 0 {
		_ = t.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, reason), time.Now().Add(farewell))
	}
	if conn, ok := t.conn.NetConn().(interface{ CloseWrite() error }); ok {
		_ = conn.CloseWrite()
	}
}

// end gives the connection its last deadline.
func (t *terminal) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ending = true
	_ = t.conn.SetReadDeadline(time.Now().Add(farewell))
	if t.ping != nil {
		t.ping.Stop()
	}
}
