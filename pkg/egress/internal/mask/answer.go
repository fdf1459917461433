package mask

import "net/http"

// Answer is an answer to a client, in which a mask covers secrets. Close ends it. What may begin
// one at the end of a piece is held back until more comes, or the body ends. No time ends
// that: who is slow to read, here or on another stream of the same connection to the host,
// could make a pause in a secret of any length.
type Answer struct {
	http.ResponseWriter
	Mask *Mask

	begun  bool // the header is written
	covers bool // the body is searched
	held   []byte
}

// Unwrap is for [http.ResponseController], which takes over connections by it.
func (a *Answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader masks the header. It adds nothing that the host has not sent.
func (a *Answer) WriteHeader(status int) {
	header := a.Header()
	a.Mask.Header(header)
	if status >= 200 {
		a.begun, a.covers = true, a.Mask.covers(header)
		for _, name := range []string{"Content-Type", "Date"} {
			if header[name] == nil {
				header[name] = nil // net/http would make one up
			}
		}
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *Answer) Write(p []byte) (int, error) {
	if !a.covers {
		return a.ResponseWriter.Write(p)
	}
	for rest := p; len(rest) > 0; {
		n := min(len(rest), max(Piece, a.Mask.hold))
		a.held = append(a.held, rest[:n]...)
		rest = rest[n:]
		a.Mask.cover(a.held)
		if err := a.pass(a.Mask.sure(a.held)); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// pass hands on the first n bytes of what is held.
func (a *Answer) pass(n int) error {
	if n == 0 {
		return nil
	}
	_, err := a.ResponseWriter.Write(a.held[:n])
	a.held = append(a.held[:0], a.held[n:]...)
	return err
}

// FlushError sends what is certain.
func (a *Answer) FlushError() error {
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// Close hands on the rest, of an answer that is whole, and masks its trailers. Of one that
// isn't, the rest is dropped.
func (a *Answer) Close(whole bool) {
	if !whole {
		return
	}
	_ = a.pass(len(a.held)) // the connection's end tells of an error
	if a.begun {
		a.Mask.Header(a.Header())
	}
}
