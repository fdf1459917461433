package checkout

import "bytes"

// head keeps the first bytes that are written to it, up to maxOutput.
type head []byte

func (h *head) Write(p []byte) (int, error) {
	*h = append(*h, p[:min(len(p), maxOutput-len(*h))]...)
	return len(p), nil
}

// ends keeps the first and the last bytes that are written to it, each up to half of
// maxMessage.
type ends struct {
	first, last []byte
	cut         bool // something between them is gone
}

func (e *ends) Write(p []byte) (int, error) {
	n := min(len(p), maxMessage/2-len(e.first))
	e.first = append(e.first, p[:n]...)
	e.last = append(e.last, p[n:]...)
	if over := len(e.last) - maxMessage/2; over > 0 {
		e.last, e.cut = append([]byte(nil), e.last[over:]...), true
	}
	return len(p), nil
}

func (e *ends) String() string {
	if e.cut {
		return string(e.first) + " … " + string(e.last)
	}
	return string(e.first) + string(e.last)
}

// lines calls use for each line that is written to it, without the newline. It leaves
// out lines that are longer than git's protocol can send.
type lines struct {
	use     func(line string)
	partial []byte
	long    bool
}

func (l *lines) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		part, after, ended := bytes.Cut(rest, []byte{'\n'})
		if l.long = l.long || len(l.partial)+len(part) > maxLine; !l.long {
			l.partial = append(l.partial, part...)
		}
		if rest = after; !ended {
			break
		}
		if !l.long {
			l.use(string(l.partial))
		}
		l.partial, l.long = l.partial[:0], false
	}
	return len(p), nil
}
