package tools

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/podagent/podagent/pkg/tools/secret"
)

// Clean returns a result as the session's own calls return theirs, without the
// secrets: for what a host shows a model beside the tools.
func (s *Session) Clean(ctx context.Context, r Result) (Result, error) {
	secrets, err := s.vault.open(ctx)
	if err != nil {
		return Result{}, err
	}
	return clean(r, secrets.redactor), nil
}

// CleanError is Clean for an error.
func (s *Session) CleanError(ctx context.Context, err error) error {
	secrets, other := s.vault.open(ctx)
	if other != nil {
		return other
	}
	return secrets.redactor.Error(err)
}

// clean returns a result as it may be shown.
func clean(r Result, redactor *secret.Redactor) Result {
	r.Content = slices.Clone(r.Content) // the tool may keep its own
	for i, c := range r.Content {
		if redactor.Finds(c.Data) {
			c = Content{Text: fmt.Sprintf("[%s, %d bytes: withheld, since there is a secret in it]", c.MediaType, len(c.Data))}
		}
		c.Text = strings.ToValidUTF8(redactor.Redact(c.Text), "\uFFFD")
		r.Content[i] = c
	}
	return r
}

// liveOutput hands on what comes during a call to who watches it, until the call
// ends or the watcher fails. It never fails itself, and may be used
// concurrently.
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

// end hands on what was held back, and nothing more from then on.
func (l *liveOutput) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.done {
		_ = l.to.Close() // whether the watcher failed at last does not matter
	}
	l.done = true
}
