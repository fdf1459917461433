// Package audit keeps a log of what callers of a gateway do: a line before an act takes place, and one
// when it has been answered.
//
// A log is outside of the sandboxes' reach, and who has not its key cannot change it unseen. Each line
// has a number and the hash of the line before it, so that the lines of a process are a chain. Its first
// line is signed, and what came since is signed again every minute, and at the end: see [Verifier].
//
// A line is a JSON object: seq and prev, which chain it, then its type, the time, what its type has
// unless it is empty or zero, and sig if it is signed. The types are start, begin, end, try, sign and close.
// A try is of a sandbox, and not of a caller: what it has tried to reach by the gateway.
package audit

import (
	"context"
	"crypto/ed25519"
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/podagent/podagent/pkg/gateway"
)

// Options say where a log goes.
type Options struct {
	// Dir is the directory of the log's files, which is made if it is not there. Several logs may
	// have the same. A file that has become large is followed by another; none is ever removed.
	Dir string
	// Out gets the log in place of files.
	Out io.Writer
	// Key signs it.
	Key ed25519.PrivateKey
	// Log gets what is wrong with the log; nil discards it.
	Log *slog.Logger
}

// Log is the log of a process, which is a [gateway.Observer]. Close it when no act can begin any more.
type Log struct {
	options  Options
	id, host string
	since    time.Time
	limit    int64         // of a file
	stop     chan struct{} // ends the signing
	signing  sync.WaitGroup

	queueMu sync.Mutex // of all to the next blank line; never held while something is written
	queue   []*entry
	open    map[string]bool // the acts that have begun
	closed  bool

	mu      sync.Mutex // of all below
	out     io.Writer
	files   int      // how many there were
	size    int64    // of the last one
	chain   chain    // as it is written
	torn    bool     // what is written ends within a line
	anew    bool     // a start has to come next
	late    []*entry // ends of acts for which there was no room
	failing bool     // the last write did
}

// entry is a line that is to be written.
type entry struct {
	line
	text []byte // of the line
	done bool   // it is written, or err says why not
	err  error
}

func entryOf(l line) *entry { return &entry{line: l, text: l.text()} }

// New begins a log.
func New(o Options) (*Log, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	id, err := uuid.NewRandom()
	if err != nil {
		return nil, err
	}
	l := &Log{
		options: o, id: id.String(), host: host, since: time.Now().UTC(), limit: fileLimit,
		stop: make(chan struct{}), open: map[string]bool{}, out: o.Out, anew: true,
	}
	if o.Out == nil {
		if l.out, err = l.nextFile(); err != nil {
			return nil, err
		}
	}
	if _, err := l.write(nil); err != nil {
		return nil, errors.Join(err, l.closeFile())
	}
	l.signing.Go(l.signAgain)
	return l, nil
}

// Begin implements [gateway.Observer]. The act is in the log when it returns without an error, and the
// kernel has the line, if not the disk.
func (l *Log) Begin(_ context.Context, a gateway.Act) error {
	if err := l.add(entryOf(begun(a))); err != nil {
		return err
	}
	l.queueMu.Lock()
	defer l.queueMu.Unlock()
	l.open[a.ID] = true
	return nil
}

// End implements [gateway.Observer]. If there is no room, the line comes before the next that there is
// room for. These are at most as many as there were acts when the room ended, since no other begins.
func (l *Log) End(_ context.Context, a gateway.Act, o gateway.Outcome) {
	l.queueMu.Lock()
	begun := l.open[a.ID]
	delete(l.open, a.ID)
	l.queueMu.Unlock()
	if begun {
		_ = l.add(entryOf(ended(a, o)))
	}
}

// EgressTried implements [gateway.EgressObserver].
func (l *Log) EgressTried(_ context.Context, t gateway.EgressTry) error {
	return l.add(entryOf(tried(t)))
}

var errClosed = errors.New("the audit log is closed")

// add writes a line, together with those that have come while another was being written.
func (l *Log) add(e *entry) error {
	l.queueMu.Lock()
	if l.closed {
		l.queueMu.Unlock()
		return errClosed
	}
	l.closed = e.Type == closed
	l.queue = append(l.queue, e)
	l.queueMu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !e.done {
		l.flush()
	}
	return e.err
}

// flush writes what is queued. What there is no room for is refused, but ends are kept.
func (l *Log) flush() {
	l.queueMu.Lock()
	batch := append(l.late, l.queue...)
	l.queue, l.late = nil, nil
	l.queueMu.Unlock()
	written := 0
	err := l.rotate()
	if err == nil {
		written, err = l.write(batch)
	}
	for i, e := range batch {
		e.done = true
		switch {
		case i < written:
		case e.Type == end:
			l.late = append(l.late, e)
		default:
			e.err = err
		}
	}
	if failing := err != nil; failing != l.failing {
		l.failing = failing
		l.tell(err)
	}
}

// tell says that the log cannot be written any more, or that it can again.
func (l *Log) tell(err error) {
	if err != nil {
		l.options.Log.Error("the audit log cannot be written: no calls are made until it can", "error", err)
		return
	}
	l.options.Log.Info("the audit log can be written again")
}

// write writes lines at once, and returns how many of them are there. If that failed, there may be a
// part of a line after them: then the chain goes on behind it, with a start.
func (l *Log) write(batch []*entry) (int, error) {
	if l.anew {
		batch = append([]*entry{entryOf(l.start())}, batch...)
	}
	var text []byte
	if l.torn {
		text = append(text, '\n')
	}
	next, after, ends := l.chain, make([]chain, len(batch)), make([]int, len(batch))
	for i, e := range batch {
		text = next.add(text, e.text, l.keyOf(e.Type))
		after[i], ends[i] = next, len(text)-len("\n")
	}
	n, err := l.out.Write(text)
	l.size += int64(n)
	written := 0
	for ; written < len(batch) && n >= ends[written]; written++ {
		l.chain = after[written]
	}
	if l.anew {
		written = max(0, written-1)
	}
	l.torn = err != nil && (l.torn || n > 0)
	l.anew = err != nil
	return written, err
}

// keyOf returns the key that signs lines of a type; nil if they are not signed.
func (l *Log) keyOf(kind string) ed25519.PrivateKey {
	if isSignedType(kind) {
		return l.options.Key
	}
	return nil
}

func (l *Log) start() line {
	return line{
		Type: start, Time: time.Now().UTC(), Chain: l.id, Host: l.host, PID: os.Getpid(),
		PublicKey: l.options.Key.Public().(ed25519.PublicKey),
	}
}

// signAgain signs the log again and again until it is closed.
func (l *Log) signAgain() {
	ticker := time.NewTicker(signInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if err := l.sign(); err != nil {
				l.options.Log.Error("the audit log cannot be signed", "error", err)
			}
		case <-l.stop:
			return
		}
	}
}

// sign signs what is new, and brings it to the disk.
func (l *Log) sign() error {
	l.mu.Lock()
	idle := l.chain.unsigned == 0 && len(l.late) == 0
	l.mu.Unlock()
	if idle {
		return nil
	}
	if err := l.add(entryOf(line{Type: sign, Time: time.Now().UTC()})); err != nil {
		return err
	}
	l.mu.Lock()
	file := l.file()
	l.mu.Unlock()
	return syncFile(file)
}

// Close ends the log with a line that says so, and brings it to the disk.
func (l *Log) Close() error {
	close(l.stop)
	l.signing.Wait()
	err := l.add(entryOf(line{Type: closed, Time: time.Now().UTC()}))
	l.signing.Wait() // files that were followed by others
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(err, syncFile(l.file()), l.closeFile())
}
