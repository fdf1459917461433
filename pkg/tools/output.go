package tools

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
)

// output takes the output of a command. The model gets its head and its tail. If
// that is not all, the whole output goes to a file in the sandbox.
type output struct {
	begin func() *keptOutput // begins that file

	mu           sync.Mutex // stdout and stderr may write at the same time
	bytes, lines int        // lines counts newlines
	head, tail   []byte
	headLines    int
	headFull     bool
	whole        *keptOutput // nil while head and tail have all of it
}

func newOutput(ctx context.Context, env *Env) *output {
	return &output{begin: func() *keptOutput { return env.kept.begin(ctx) }}
}

// Write never fails: trouble with the output must not end the command.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.bytes += len(p)
	o.lines += bytes.Count(p, []byte("\n"))
	if o.whole == nil && o.isLong() {
		o.whole = o.begin()
		o.whole.write(o.head)
		o.whole.write(o.tail)
	}
	if o.whole != nil {
		o.whole.write(p)
	}
	o.keep(p)
	return len(p), nil
}

// isLong reports whether the output exceeds the limits of a result.
func (o *output) isLong() bool { return o.bytes > MaxText || o.lines > MaxLines }

// keep fills the head, then keeps the latest bytes as the tail.
func (o *output) keep(p []byte) {
	if !o.headFull {
		n := min(len(p), MaxText/2-len(o.head), nthLine(p, MaxLines/2-o.headLines))
		o.head = append(o.head, p[:n]...)
		o.headLines += bytes.Count(p[:n], []byte("\n"))
		o.headFull = len(o.head) == MaxText/2 || o.headLines == MaxLines/2
		p = p[n:]
	}
	room := MaxText - len(o.head)
	if len(p) > room {
		o.tail, p = o.tail[:0], p[len(p)-room:]
	}
	o.tail = append(o.tail, p...)
	if excess := len(o.tail) - room; excess > room { // not on every write, since it copies
		o.tail = append(o.tail[:0], o.tail[excess:]...)
	}
}

// discard drops the output.
func (o *output) discard() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.whole != nil {
		o.whole.discard()
	}
}

// end returns the text for the model once the output is complete. It keeps the
// whole output in a file if the text is only a part.
func (o *output) end(ctx context.Context) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.whole == nil {
		return string(o.head) + string(o.tail)
	}
	head := wholeLines(o.head)
	tail := o.tail[max(0, len(o.tail)-(MaxText-len(head))):]
	tail = tail[lastLines(tail, MaxLines-bytes.Count(head, []byte("\n"))-1):]
	tail = fromLine(tail)
	left := count(o.bytes-len(head)-len(tail), "byte")
	if n := o.lines - bytes.Count(head, []byte("\n")) - bytes.Count(tail, []byte("\n")); n > 0 {
		left = count(n, "line") + ", " + left
	}
	return endLine(string(head)) + fmt.Sprintf("[%s left out; %s]\n", left, o.whole.end(ctx)) + string(tail)
}

// endLine returns text with a newline at its end, unless it is empty.
func endLine(text string) string {
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text
}
