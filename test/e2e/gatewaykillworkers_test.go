package e2e

// What callers do while replicas of a gateway are killed.

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/websocket"

	"github.com/podagent/podagent/test/e2e/internal/harness"
)

var killWorkers = []struct {
	name string
	work func(*killWorker) error
}{
	{"exec", (*killWorker).execs},
	{"write", (*killWorker).writes},
	{"input", (*killWorker).inputs},
	{"output", (*killWorker).outputs},
	{"terminal", (*killWorker).terminal},
	{"routed", (*killWorker).routed},
	{"podapi commands", (*killWorker).podapiCommands},
	{"podapi stream", (*killWorker).podapiStream},
}

func (w *killWorker) path(rest string) string { return "/api/v1/sandboxes/" + w.sandbox + rest }

// wants returns an error unless an answer has this status.
func wants(r *http.Response, text []byte, err error, status int) error {
	if err == nil && r.StatusCode != status {
		err = fmt.Errorf("%d %s, want %d", r.StatusCode, text, status)
	}
	return err
}

func keyHeader() string { return "Idempotency-Key: " + uuid.Must(uuid.NewV7()).String() }

// execs runs commands, each once.
func (w *killWorker) execs() error {
	var want strings.Builder
	for n := 0; !w.over.Load(); n++ {
		fmt.Fprintln(&want, n)
		r, text, err := w.again("POST", w.path("/exec"), fmt.Appendf(nil, `{"script":"echo %d >> ran; echo %d"}`, n, n), keyHeader())
		if err := wants(r, text, err, 200); err != nil {
			return err
		}
		if out := fmt.Sprintf(`"stdout":"%d\n"`, n); !bytes.Contains(text, []byte(strings.ReplaceAll(out, "\n", `\n`))) {
			return fmt.Errorf("command %d answered %s", n, text)
		}
		w.done.Add(1)
	}
	r, text, err := w.again("GET", w.path("/files?path=ran"), nil)
	if err := wants(r, text, err, 200); err != nil {
		return err
	}
	if string(text) != want.String() {
		return fmt.Errorf("the commands left %q, want %q", text, want.String())
	}
	return nil
}

// writes replaces a file, each time under the etag of the last one.
func (w *killWorker) writes() error {
	condition := "If-None-Match: *"
	unknown := false // what became of an earlier try: it may still happen
	for !w.over.Load() {
		content := make([]byte, 100_000)
		_, _ = rand.NewChaCha8([32]byte{byte(w.done.Load())}).Read(content)
		r, text, err := w.send("PUT", w.path("/files?path=written"), content, condition)
		refused := err == nil && (r.StatusCode == 409 || r.StatusCode == 412)
		if err == nil && r.StatusCode/100 != 2 && !(refused && unknown) {
			return fmt.Errorf("a write: %d %s", r.StatusCode, text)
		}
		now, read, readErr := w.again("GET", w.path("/files?path=written"), nil)
		if readErr != nil {
			return readErr
		}
		if errors.Is(err, errAgain) && !bytes.Equal(read, content) {
			unknown = true
			continue
		}
		if err := wants(now, nil, nil, 200); err != nil {
			return err
		}
		if !bytes.Equal(read, content) {
			return errors.New("a write is said to be done, and is not")
		}
		condition, unknown = "If-Match: "+now.Header.Get("ETag"), false
		w.done.Add(1)
	}
	return nil
}

// detach starts a command that runs on, and returns its exec id.
func (w *killWorker) detach(body string) (string, error) {
	r, text, err := w.again("POST", w.path("/exec"), []byte(body), keyHeader())
	if err := wants(r, text, err, 202); err != nil {
		return "", err
	}
	var started struct {
		ID string `json:"exec_id"`
	}
	err = json.Unmarshal(text, &started)
	return started.ID, err
}

// inputs sends input to a command by offset.
func (w *killWorker) inputs() error {
	id, err := w.detach(`{"script":"cat > input; sha256sum < input","open_stdin":true,"detach":true}`)
	if err != nil {
		return err
	}
	sum, offset := sha256.New(), 0
	for last := false; !last; {
		last = w.over.Load()
		part := make([]byte, 1+rand.IntN(20_000))
		_, _ = rand.NewChaCha8([32]byte{byte(offset)}).Read(part)
		r, text, err := w.again("PUT", w.path(fmt.Sprintf("/processes/%s/stdin?offset=%d&end=%t", id, offset, last)), part)
		if err == nil && last && r.StatusCode == 409 && bytes.Contains(text, []byte("stdin_closed")) {
			r.StatusCode = 200 // the end was taken, and its answer was lost
		}
		if err := wants(r, text, err, 200); err != nil {
			return err
		}
		sum.Write(part)
		offset += len(part)
		w.done.Add(1)
	}
	out, err := w.follow(id, 0, func(string) {})
	if want := fmt.Sprintf("%x", sum.Sum(nil)); err == nil && !strings.HasPrefix(out, want) {
		err = fmt.Errorf("the input has the sum %s, want %s", out, want)
	}
	return err
}

// follow returns the output of a command, whose answer is asked for again from where it was cut off.
func (w *killWorker) follow(id string, offset int64, got func(string)) (string, error) {
	var all strings.Builder
	for deadline := time.Now().Add(2 * harness.Hung); time.Now().Before(deadline); {
		ended, err := w.followOnce(id, &offset, &all, got)
		if ended || err != nil {
			return all.String(), err
		}
	}
	return "", errors.New("the output does not end")
}

func (w *killWorker) followOnce(id string, offset *int64, all *strings.Builder, got func(string)) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*harness.Hung)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", w.url+w.path(fmt.Sprintf("/processes/%s/output?follow=true&stdout_offset=%d", id, *offset)), nil)
	if err != nil {
		return false, err
	}
	req.Header.Set("Authorization", "Bearer "+gatewayToken)
	r, err := (&http.Client{Transport: &w.trail}).Do(req)
	if err != nil {
		return false, nil
	}
	defer r.Body.Close()
	if r.StatusCode != 200 {
		if r.StatusCode >= 502 {
			return false, nil
		}
		return false, fmt.Errorf("the output: %s", r.Status)
	}
	lines := bufio.NewReader(r.Body)
	for {
		text, err := lines.ReadString('\n')
		if err != nil {
			return false, nil // cut off
		}
		var line struct {
			Type, Data string
			Offset     int64
		}
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			return false, fmt.Errorf("%q: %w", text, err)
		}
		switch line.Type {
		case "stdout":
			if line.Offset != *offset {
				return false, fmt.Errorf("output of offset %d in place of %d", line.Offset, *offset)
			}
			*offset += int64(len(line.Data))
			all.WriteString(line.Data)
			got(line.Data)
		case "exit":
			return true, nil
		}
	}
}

// outputs follows a command that writes until a file is there.
func (w *killWorker) outputs() error {
	id, err := w.detach(`{"script":"i=0; while [ ! -e stop ]; do i=$((i+1)); echo line $i; sleep 0.01; done","detach":true}`)
	if err != nil {
		return err
	}
	stopped := false
	out, err := w.follow(id, 0, func(string) {
		w.done.Add(1)
		if w.over.Load() && !stopped {
			stopped = true
			go func() { _, _, _ = w.again("PUT", w.path("/files?path=stop"), []byte("x")) }()
		}
	})
	if err != nil {
		return err
	}
	for i, line := range strings.Split(strings.TrimSuffix(out, "\n"), "\n") {
		if line != fmt.Sprintf("line %d", i+1) {
			return fmt.Errorf("line %d of the output is %q", i+1, line)
		}
	}
	return nil
}

// echoing is a terminal that sends back what it gets.
type echoing struct {
	w       *killWorker
	key, id string
	conn    *websocket.Conn
	in, out []byte
	sent    int // how much of in this connection has sent; -1 before it has said what was taken
}

// terminalSilence is when a terminal's connection is given up, which has a ping each 15 s. The last
// packets of a pod that is killed may be lost.
const terminalSilence = time.Minute

// echoReady comes when the terminal has left off its own echo.
const echoReady = "ready"

// terminal types into a terminal that sends it back.
func (w *killWorker) terminal() error {
	e := &echoing{w: w, key: uuid.Must(uuid.NewV7()).String()}
	defer e.leave()
	for !w.over.Load() {
		e.in = append(e.in, fmt.Sprintf("<%d>", len(e.in))...)
		for deadline := time.Now().Add(harness.Hung); len(e.out) < len(echoReady)+len(e.in); {
			if err := e.exchange(); err != nil {
				return err
			}
			if time.Now().After(deadline) {
				return errors.New("the terminal does not go on")
			}
		}
		if want := echoReady + string(e.in); string(e.out) != want {
			return fmt.Errorf("the terminal sent %q, want %q", e.out, want)
		}
		w.done.Add(1)
	}
	r, text, err := w.again("POST", w.path("/processes/"+e.id+"/signal"), []byte(`{"signal":9}`))
	if err == nil && r.StatusCode == 409 {
		return nil // it was sent before
	}
	return wants(r, text, err, 204)
}

func (e *echoing) leave() {
	if e.conn != nil {
		e.conn.Close()
		e.conn = nil
	}
}

// exchange connects if need be, sends what was not taken yet, and takes a frame.
func (e *echoing) exchange() error {
	if e.conn == nil && !e.connect() {
		return nil
	}
	if e.sent >= 0 && e.sent < len(e.in) && len(e.out) >= len(echoReady) {
		frame := append(binary.BigEndian.AppendUint64(nil, uint64(e.sent)), e.in[e.sent:]...)
		e.sent = len(e.in)
		if e.conn.WriteMessage(websocket.BinaryMessage, frame) != nil {
			e.leave()
			return nil
		}
	}
	_ = e.conn.SetReadDeadline(time.Now().Add(terminalSilence))
	kind, frame, err := e.conn.ReadMessage()
	switch {
	case err != nil:
		e.leave()
		return nil
	case kind == websocket.TextMessage:
		return e.event(frame)
	}
	if at := binary.BigEndian.Uint64(frame); at != uint64(len(e.out)) {
		return fmt.Errorf("output of offset %d in place of %d", at, len(e.out))
	}
	e.out = append(e.out, frame[8:]...)
	return nil
}

func (e *echoing) event(frame []byte) error {
	var event struct {
		Type    string
		ID      string `json:"exec_id"`
		Offset  int    `json:"stdin_offset"`
		Problem struct{ Status int }
	}
	if err := json.Unmarshal(frame, &event); err != nil {
		return err
	}
	switch {
	case event.Type == "start":
		e.id, e.sent = event.ID, event.Offset
	case event.Type == "exit", event.Type == "error" && event.Problem.Status < 502:
		return fmt.Errorf("the terminal ended: %s", frame)
	}
	return nil
}

// connect connects to the terminal, and reports whether it could.
func (e *echoing) connect() bool {
	query := "script=stty+raw+-echo%3B+printf+" + echoReady + "%3B+exec+cat&idempotency_key=" + e.key
	if e.id != "" {
		query = fmt.Sprintf("exec_id=%s&stdout_offset=%d", e.id, len(e.out))
	}
	dialer := &websocket.Dialer{Subprotocols: []string{"podagent.terminal.v1"}, HandshakeTimeout: harness.Hung}
	conn, answer, err := dialer.Dial("ws"+strings.TrimPrefix(e.w.url, "http")+e.w.path("/terminal?"+query), http.Header{"Authorization": {"Bearer " + gatewayToken}})
	e.w.trail.attempt(answer)
	if err != nil {
		return false
	}
	e.conn, e.sent = conn, -1
	pong := conn.PingHandler()
	conn.SetPingHandler(func(text string) error {
		_ = conn.SetReadDeadline(time.Now().Add(terminalSilence))
		return pong(text)
	})
	return true
}

// routed calls a server in the sandbox.
func (w *killWorker) routed() error {
	program := harness.BuildProgram(w.T, "test/e2e/testdata/server")
	if r, text, err := w.again("PUT", w.path("/files?path=server&mode=0755"), program); err != nil || r.StatusCode/100 != 2 {
		return fmt.Errorf("%s: %w", text, errors.Join(err, errors.New("no server")))
	}
	id, err := w.detach(`{"args":["./server"],"detach":true}`)
	if err != nil {
		return err
	}
	port, err := w.portOf(id)
	if err != nil {
		return err
	}
	for !w.over.Load() {
		body := make([]byte, 1+rand.IntN(200_000))
		_, _ = rand.NewChaCha8([32]byte{byte(len(body))}).Read(body)
		r, text, err := w.again("POST", "/sum", body, "X-Sandbox-ID: "+w.sandbox, "X-Sandbox-Port: "+port)
		if err := wants(r, text, err, 200); err != nil {
			return err
		}
		if want := fmt.Sprintf("%x %d <nil>\n", sha256.Sum256(body), len(body)); string(text) != want {
			return fmt.Errorf("the server got %q, want %q", text, want)
		}
		w.done.Add(1)
	}
	return nil
}

// portOf returns the port of the server's web pages, once it is ready.
func (w *killWorker) portOf(id string) (string, error) {
	for deadline := time.Now().Add(harness.Hung); time.Now().Before(deadline); {
		r, text, err := w.again("GET", w.path("/processes/"+id+"/output"), nil)
		if err := wants(r, text, err, 200); err != nil {
			return "", err
		}
		var line struct{ Data string }
		first, _, _ := bytes.Cut(text, []byte("\n"))
		if err := json.Unmarshal(first, &line); err != nil {
			return "", err
		}
		if !strings.Contains(line.Data, "ready") {
			continue
		}
		for _, named := range strings.Split(line.Data, "\n") {
			if port, ok := strings.CutPrefix(named, "http "); ok {
				return port, nil
			}
		}
	}
	return "", errors.New("the server does not start")
}
