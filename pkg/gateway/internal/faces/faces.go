// Package faces has what the faces of a gateway share: how they read what their callers send, tell errors
// apart, and write JSON.
package faces

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/podapi"
)

// WriteJSON answers with JSON.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	to := json.NewEncoder(w)
	to.SetEscapeHTML(false)
	_ = to.Encode(v) // the caller may have gone
}

// SetRetryAfter says when the same request may succeed, if that is known, in whole seconds, at least one.
func SetRetryAfter(h http.Header, d time.Duration) {
	if d > 0 {
		h.Set("Retry-After", strconv.Itoa(max(1, int(d/time.Second))))
	}
}

// Text returns a name of a file as JSON can have it, which is not all that Linux allows.
func Text(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }

// BadRequest is the error, of status 400, of a request that says something wrong.
func BadRequest(format string, args ...any) error {
	return gateway.Fail(http.StatusBadRequest, "invalid", fmt.Sprintf(format, args...))
}

// IsAboutFile reports whether an error says that a path leads nowhere, or to what cannot be run or looked at,
// and not that nobody knows.
func IsAboutFile(err error) bool {
	if errors.Is(err, podapi.ErrUnavailable) || errors.Is(err, podapi.ErrAgentLost) {
		return false
	}
	_, ok := errors.AsType[syscall.Errno](err)
	return ok || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)
}

// Source is what a caller sends. Failed is why it cannot be read, once that is so.
type Source struct {
	io.Reader
	Failed error
}

// Read implements [io.Reader].
func (s *Source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && err != io.EOF {
		s.Failed = err
	}
	return n, err
}

// Explain returns why something could not be done with what a caller sends. If that could not be read, it
// counts, and not what became of it, which err is. A source may be nil.
func Explain(err error, from ...*Source) error {
	for _, s := range from {
		if s == nil || s.Failed == nil {
			continue
		}
		if status, ok := errors.AsType[interface {
			error
			GetStatus() int
		}](s.Failed); ok {
			return status // it came too slowly, or the like
		}
		return BadRequest("the body: %v", s.Failed)
	}
	return err
}
