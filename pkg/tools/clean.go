package tools

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/podagent/podagent/pkg/tools/secret"
)

// Clean returns a result with the secrets redacted, as in the results of the
// session's own calls. Use it for what a host itself shows to a model.
func (s *Session) Clean(ctx context.Context, r Result) (Result, error) {
	secrets, err := s.vault.open(ctx)
	if err != nil {
		return Result{}, err
	}
	return clean(r, secrets.redactor), nil
}

// CleanError is [Session.Clean] for an error.
func (s *Session) CleanError(ctx context.Context, err error) error {
	secrets, other := s.vault.open(ctx)
	if other != nil {
		return other
	}
	return secrets.redactor.Error(err)
}

// clean returns a result without secrets and in valid UTF-8.
func clean(r Result, redactor *secret.Redactor) Result {
	r.Content = slices.Clone(r.Content) // the tool may still use the slice
	for i, c := range r.Content {
		if redactor.Finds(c.Data) {
			c = Content{Text: fmt.Sprintf("[%s, %d bytes: withheld, because it contains a secret]", c.MediaType, len(c.Data))}
		}
		c.Text = strings.ToValidUTF8(redactor.Redact(c.Text), "\uFFFD")
		r.Content[i] = c
	}
	return r
}

// liveOutput passes output on to a watcher until the call ends or the watcher
// fails. It never fails itself, and may be used concurrently.
type liveOutput struct {
	mu   sync.Mutex
	to   *secret.Writer
	done bool
}

func (l *liveOutput) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.done {
		_, err := l.to.Write(p)
		l.done = err != nil
	}
	return len(p), nil
}

// end passes on the bytes held back. Later writes are dropped.
func (l *liveOutput) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.done {
		_ = l.to.Close() // a watcher's error does not matter
	}
	l.done = true
}
