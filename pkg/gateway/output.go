package gateway

import (
	"fmt"
	"sync"
	"unicode/utf8"

	"github.com/podagent/podagent/pkg/podapi"
)

// tail keeps the last bytes that are written to it, up to limit.
type tail struct {
	limit   int
	kept    []byte
	written int64
}

func (t *tail) Write(p []byte) (int, error) {
	t.written += int64(len(p))
	t.kept = append(t.kept, p...)
	if len(t.kept) > 2*t.limit {
		t.kept = append([]byte(nil), t.last()...)
	}
	return len(p), nil
}

func (t *tail) last() []byte { return t.kept[max(0, len(t.kept)-t.limit):] }

// String returns what is kept, from the beginning of a rune on.
func (t *tail) String() string { return string(t.whole()) }

// omitted returns how many of all bytes come before what is kept. The sandbox may have lost some.
func (t *tail) omitted(all int64) int64 { return all - int64(len(t.whole())) }

// whole leaves out the rest of a rune whose beginning is gone.
func (t *tail) whole() []byte {
	last := t.last()
	if int64(len(last)) == t.written {
		return last
	}
	for n := range min(utf8.UTFMax-1, len(last)) {
		if utf8.RuneStart(last[n]) {
			return last[n:]
		}
	}
	return last
}

// outputLines writes the outputs of a command as lines.
type outputLines struct {
	call    *rawCall
	before  <-chan struct{} // closed when the first line is written; nil stands for that
	outputs []*outputLine
	mu      sync.Mutex // the outputs are written to concurrently
}

// of returns the writer of an output.
func (l *outputLines) of(name string) *outputLine {
	o := &outputLine{outputLines: l, name: name}
	l.outputs = append(l.outputs, o)
	return o
}

// end writes the last line. Nothing writes to the outputs any more.
func (l *outputLines) end(last OutputLine) error {
	for _, o := range l.outputs {
		if err := o.flush(); err != nil {
			return err
		}
	}
	return l.call.line(last, true)
}

// outputLine writes what is written to it as lines. It holds back the beginning of a rune until
// the rest of it comes, so that text stays text however the output is cut.
type outputLine struct {
	*outputLines
	name   string
	offset int64 // of what is held, and of what comes next without it
	held   []byte
}

// at notes where what is written next begins: output before it may be lost.
func (o *outputLine) at(offset int64) {
	_ = o.flush() // if it fails, so does the Write that follows
	o.offset = offset
}

func (o *outputLine) Write(p []byte) (int, error) {
	data := append(o.held, p...)
	whole := len(data) - unfinished(data)
	o.held = append([]byte(nil), data[whole:]...)
	if err := o.send(data[:whole]); err != nil {
		if !o.call.ends { // it runs on, whether the call has noticed already that its caller is gone or not
			err = fmt.Errorf("%w: %w", podapi.ErrDetached, err)
		}
		return 0, err
	}
	return len(p), nil
}

// flush sends the beginning of a rune that has no rest.
func (o *outputLine) flush() error {
	held := o.held
	o.held = nil
	return o.send(held)
}

func (o *outputLine) send(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	if o.before != nil {
		<-o.before
	}
	offset := o.offset
	o.offset += int64(len(data))
	line := OutputLine{Type: o.name, Offset: &offset}
	line.Data, line.DataOther = split(string(data))
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.call.line(line, true)
}

// unfinished returns how many bytes at the end of p are the beginning of a rune.
func unfinished(p []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(p); n++ {
		end := p[len(p)-n:]
		if utf8.RuneStart(end[0]) {
			if utf8.FullRune(end) {
				return 0
			}
			return n
		}
	}
	return 0
}
