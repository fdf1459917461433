package agentsandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/internal/faces"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
)

// executed is the answer to execute.
type executed struct {
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
	ExitCode int    `json:"exit_code"`
}

// execute runs a command, whose words are split as a shell does, and without one. A command that cannot
// run, or runs for too long, is a result. One whose caller leaves ends.
func execute(c *call) error {
	var in struct {
		Command *string `json:"command"`
	}
	if err := c.body(&in); err != nil {
		return err
	}
	if in.Command == nil {
		return faces.BadRequest("the body lacks command")
	}
	words, fault := splitWords(*in.Command)
	if fault == nil && len(words) == 0 {
		fault = errors.New("there is no command")
	}
	return c.on(gateway.Detail{Args: words}, func(s *launcher.Sandbox) error {
		if fault != nil {
			return c.executed("", notExecuted(fault), 1)
		}
		ran, err := run(c.r.Context(), c.Call, s, &command{words: words, limit: executeOutput, size: jsonSize, timeout: executeTime})
		switch {
		case faces.IsAboutFile(err):
			return c.executed("", notExecuted(err), 1)
		case err != nil:
			return err
		case ran.status.Reason == podapi.TimedOut:
			return c.executed("", notExecuted(fmt.Errorf("it ran for more than %v", executeTime)), 1)
		case ran.status.Reason == podapi.Signalled:
			return c.executed(ran.stdout.String(), ran.stderr.String(), -ran.status.Signal)
		}
		return c.executed(ran.stdout.String(), ran.stderr.String(), ran.status.Code)
	})
}

func notExecuted(why error) string { return "Failed to execute command: " + why.Error() }

func (c *call) executed(stdout, stderr string, code int) error {
	faces.WriteJSON(c.w, http.StatusOK, executed{stdout, stderr, code})
	return nil
}

// body decodes a body of JSON.
func (c *call) body(into any) error {
	data, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, bodyLimit))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return gateway.Fail(http.StatusRequestEntityTooLarge, "too_large", fmt.Sprintf("the body has more than %d bytes", bodyLimit))
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return faces.BadRequest("the body is not as it should be: %v", err)
	}
	return nil
}

// command is one whose output is an answer.
type command struct {
	words, env []string
	dir        string
	limit      int              // of its output, as size counts
	size       func([]byte) int // how much of the limit output takes; nil for its bytes
	timeout    time.Duration
}

// result is how a command ended.
type result struct {
	stdout, stderr bytes.Buffer
	status         *podapi.ExitStatus
}

// run runs a command to its end, or until ctx ends: then it is killed, and the error is the context's.
func run(ctx context.Context, c *gateway.Call, s *launcher.Sandbox, of *command) (*result, error) {
	r, room := &result{}, &room{left: of.limit, size: of.size}
	cmd := s.Command(ctx, of.words[0], of.words[1:]...)
	cmd.Env, cmd.Dir, cmd.Timeout = of.env, of.dir, of.timeout
	cmd.Stdout, cmd.Stderr = &roomWriter{&r.stdout, room}, &roomWriter{&r.stderr, room}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c.Started(ctx, cmd.Process)
	err := cmd.Wait()
	if r.status = cmd.Process.Status(); r.status != nil {
		c.Exited(ctx, r.status)
	}
	_, ended := errors.AsType[*podapi.ExitError](err)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil && !ended:
		return nil, err
	}
	return r, checkWhole(r.status)
}

// checkWhole refuses the end of a command of whose output bytes are missing.
func checkWhole(s *podapi.ExitStatus) error {
	if s.Omitted > 0 {
		return gateway.Fail(http.StatusInternalServerError, "cut", fmt.Sprintf("%d bytes of the output are missing: the sandbox no longer has them", s.Omitted))
	}
	return nil
}

// room is what the outputs of a command may still take.
type room struct {
	size func([]byte) int
	mu   sync.Mutex
	left int
}

type roomWriter struct {
	*bytes.Buffer
	room *room
}

func (w *roomWriter) Write(p []byte) (int, error) {
	size := len(p)
	if w.room.size != nil {
		size = w.room.size(p)
	}
	w.room.mu.Lock()
	w.room.left -= size
	full := w.room.left < 0
	w.room.mu.Unlock()
	if full {
		return 0, gateway.Fail(http.StatusRequestEntityTooLarge, "too_large", "the output is larger than an answer may be: let the command write it to a file, or follow it as a stream")
	}
	return w.Buffer.Write(p)
}

// jsonSize is how many bytes output takes in JSON, at most.
func jsonSize(output []byte) (size int) {
	for len(output) > 0 {
		r, n := utf8.DecodeRune(output)
		switch {
		case strings.ContainsRune("\n\r\t\"\\", r):
			size += 2
		case r < ' ', r == utf8.RuneError && n == 1, r == '\u2028', r == '\u2029':
			size += 6
		default:
			size += n
		}
		output = output[n:]
	}
	return size
}

// splitWords splits a text as a POSIX shell splits a simple command, with its quotes, and expands nothing.
// What has a meaning is ASCII, so it takes byte by byte, and leaves the others as they are.
func splitWords(text string) (words []string, err error) {
	var word strings.Builder
	var quote byte
	begun, escaped := false, false
	for _, b := range []byte(text) {
		switch {
		case escaped:
			if quote == '"' && b != '"' && b != '\\' {
				word.WriteByte('\\')
			}
			word.WriteByte(b)
			escaped = false
		case b == '\\' && quote != '\'':
			begun, escaped = true, true
		case quote != 0 && b == quote:
			quote = 0
		case quote != 0:
			word.WriteByte(b)
		case b == '\'' || b == '"':
			begun, quote = true, b
		case strings.IndexByte(" \t\r\n", b) >= 0:
			if begun {
				words = append(words, word.String())
				word.Reset()
			}
			begun = false
		default:
			begun = true
			word.WriteByte(b)
		}
	}
	switch {
	case escaped:
		return nil, errors.New("nothing follows the last backslash")
	case quote != 0:
		return nil, errors.New("a quotation is not closed")
	case begun:
		words = append(words, word.String())
	}
	if len(words) > wordsLimit {
		return nil, fmt.Errorf("there are more than %d words", wordsLimit)
	}
	return words, nil
}
