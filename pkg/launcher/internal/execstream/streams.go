package execstream

import (
	"errors"
	"io"
	"strings"
	"sync"
)

// stdin is the far end of a connection that the executor reads from. It ends by
// Close, or when the executor does.
type stdin conn

func (s *stdin) Read(p []byte) (int, error) {
	n, err := s.far.Read(p)
	if errors.Is(err, io.ErrClosedPipe) {
		err = io.EOF
	}
	return n, err
}

// stdout is the far end of a connection that the executor writes to. It accepts
// data that nobody reads any more, because the end of the command may follow.
type stdout conn

func (s *stdout) Write(p []byte) (int, error) {
	n, err := s.far.Write(p)
	if errors.Is(err, io.ErrClosedPipe) {
		return len(p), nil
	}
	return n, err
}

// head keeps the beginning of what is written to it.
type head struct {
	mu   sync.Mutex
	kept []byte
}

func (h *head) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kept = append(h.kept, p[:min(len(p), maxStderr-len(h.kept))]...)
	return len(p), nil
}

// text returns what was kept, without the white space around it.
func (h *head) text() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.TrimSpace(string(h.kept))
}
