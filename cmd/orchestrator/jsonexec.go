package main

import (
	"io"
	"sync"
	"unicode/utf8"

	"github.com/podagent/podagent/cmd/internal/render"
	"github.com/podagent/podagent/pkg/podapi"
)

// execLines prints the output and the end of a command as JSON lines.
type execLines struct {
	mu  sync.Mutex // the streams are written to concurrently
	out io.Writer
}

func (l *execLines) print(v any) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return render.JSON(l.out, v)
}

// exit prints how the command ended.
func (l *execLines) exit(s podapi.ExitStatus) error {
	return l.print(struct {
		Type        string        `json:"type"`
		Reason      podapi.Reason `json:"reason"`
		Code        int           `json:"code"`
		Signal      int           `json:"signal,omitempty"`
		OutputOpen  bool          `json:"output_open,omitempty"`
		Processes   bool          `json:"process_limit,omitempty"`
		StdoutBytes int64         `json:"stdout_bytes"`
		StderrBytes int64         `json:"stderr_bytes"`
		Omitted     int64         `json:"omitted_bytes,omitempty"`
		Wall        int64         `json:"wall_ms"`
		User        int64         `json:"user_ms"`
		System      int64         `json:"system_ms"`
		MaxRSS      int64         `json:"max_rss_bytes"`
	}{
		"exit", s.Reason, s.Code, s.Signal, s.OutputOpen, s.ProcessLimit, s.Stdout, s.Stderr, s.Omitted,
		s.Wall.Milliseconds(), s.User.Milliseconds(), s.System.Milliseconds(), s.MaxRSS,
	})
}

// detached prints that the command with this exec id runs on, and how much of its output
// so far is missing.
func (l *execLines) detached(id string, omitted int64) error {
	return l.print(struct {
		Type    string `json:"type"`
		ID      string `json:"id"`
		Omitted int64  `json:"omitted_bytes,omitempty"`
	}{"detached", id, omitted})
}

// stream returns the writer of the output stream of this name.
func (l *execLines) stream(name string) *execStream {
	return &execStream{lines: l, name: name}
}

// An execStream prints each write as a line. It holds back the beginning of a rune
// until the rest of it comes, so that text stays text however the output was cut
// into chunks.
type execStream struct {
	lines *execLines
	name  string
	held  []byte
}

func (s *execStream) Write(p []byte) (int, error) {
	data := append(s.held, p...)
	whole := len(data) - incompleteTail(data)
	s.held = append([]byte(nil), data[whole:]...)
	if err := s.print(data[:whole]); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Flush prints the beginning of a rune that Write held back, and that will not be
// completed.
func (s *execStream) Flush() error {
	held := s.held
	s.held = nil
	return s.print(held)
}

func (s *execStream) print(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	return s.lines.print(struct {
		Type string      `json:"type"`
		Data render.Text `json:"data"`
	}{s.name, data})
}

// incompleteTail returns how many bytes at the end of p are the beginning of an
// incomplete UTF-8 sequence.
func incompleteTail(p []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(p); n++ {
		tail := p[len(p)-n:]
		if utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}
