package podapi

import "fmt"

// headTail keeps the first and the last limit bytes of what is written to it.
type headTail struct {
	limit      int
	head, tail []byte
	omitted    int64
}

func (b *headTail) Write(p []byte) (int, error) {
	n := min(len(p), b.limit-len(b.head))
	b.head = append(b.head, p[:n]...)
	b.tail = append(b.tail, p[n:]...)
	if excess := len(b.tail) - b.limit; excess > 0 {
		b.omitted += int64(excess)
		b.tail = append(b.tail[:0], b.tail[excess:]...)
	}
	return len(p), nil
}

// Bytes returns what was kept, with a line in between that says how many bytes were
// omitted.
func (b *headTail) Bytes() []byte {
	out := append([]byte(nil), b.head...)
	if b.omitted > 0 {
		out = fmt.Appendf(out, "\n... omitting %d bytes ...\n", b.omitted)
	}
	return append(out, b.tail...)
}
