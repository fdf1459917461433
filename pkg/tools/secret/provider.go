package secret

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Provider gets a secret from where it is kept.
type Provider interface {
	// Secret returns the value. It ends when ctx does. Its error does not have
	// the value in it. It may be called concurrently.
	Secret(ctx context.Context) (string, error)
}

// Func is a function as a Provider.
type Func func(ctx context.Context) (string, error)

// Secret calls f.
func (f Func) Secret(ctx context.Context) (string, error) { return f(ctx) }

// Env returns the provider of a variable of this program's environment.
func Env(name string) Provider { return envVar(name) }

type envVar string

func (v envVar) source() string { return "environment variable " + string(v) }

func (v envVar) Secret(context.Context) (string, error) {
	value, ok := os.LookupEnv(string(v))
	if !ok {
		return "", fmt.Errorf("the environment variable %s is not set", string(v))
	}
	return value, nil
}

// File returns the provider of a file's content, of the machine that this runs
// on. One line's end at its end is no part of the secret.
func File(path string) Provider { return file(path) }

type file string

func (f file) source() string { return "file " + string(f) }

func (f file) Secret(context.Context) (string, error) {
	open, err := os.Open(string(f))
	if err != nil {
		return "", err
	}
	defer open.Close()
	if info, err := open.Stat(); err == nil && info.IsDir() {
		return "", &fs.PathError{Op: "read", Path: string(f), Err: errors.New("is a directory")}
	}
	content, err := io.ReadAll(io.LimitReader(open, int64(maxRead)))
	return trimLine(content), err
}

// Exec returns the provider of what a command prints, on the machine that this
// runs on, such as a password manager's: Exec("op", "read",
// "op://Engineering/GitHub/token"). A line's end at its end is no part of the
// secret.
func Exec(name string, args ...string) Provider {
	return command(append([]string{name}, args...))
}

type command []string

func (c command) source() string { return "command " + c[0] }

const (
	// maxRead is how much is read of what should be a secret: one byte more
	// than the longest that is followed by a line's end.
	maxRead = MaxValue + len("\r\n") + 1
	// maxStderr is how much of what a failed command says an error has.
	maxStderr = 256
	// execDelay is how long after a command's end something that it started may
	// hold its output open.
	execDelay = time.Second
)

var errHeldOpen = errors.New("something that it started holds its output open")

func (c command) Secret(ctx context.Context) (string, error) {
	running, kill := context.WithCancel(ctx)
	defer kill()
	stdout := &limitedBuffer{limit: maxRead, full: kill}
	stderr := &limitedBuffer{limit: maxStderr, full: func() {}}
	cmd := exec.CommandContext(running, c[0], c[1:]...)
	cmd.WaitDelay = execDelay
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err := cmd.Run()
	switch said := strings.TrimSpace(string(stderr.kept)); {
	case ctx.Err() != nil:
		err = ctx.Err()
	case len(stdout.kept) == maxRead:
		return string(stdout.kept), nil // which is too long for a secret, however it ended
	case err == nil:
		return trimLine(stdout.kept), nil
	case errors.Is(err, exec.ErrWaitDelay):
		err = errHeldOpen
	case len(stdout.kept) == 0 && said != "": // or it may repeat a part of the value
		err = fmt.Errorf("%w: %s", err, said)
	}
	return "", fmt.Errorf("%s: %w", c[0], err)
}

// limitedBuffer keeps the first bytes that are written to it, and calls full
// when there is no more room.
type limitedBuffer struct {
	kept  []byte
	limit int
	full  func()
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	b.kept = append(b.kept, p[:min(len(p), b.limit-len(b.kept))]...)
	if len(b.kept) == b.limit {
		b.full()
	}
	return len(p), nil
}

// trimLine returns content without one line's end at its end.
func trimLine(content []byte) string {
	return strings.TrimSuffix(strings.TrimSuffix(string(content), "\n"), "\r")
}

// Static returns the provider of a value that the program has.
func Static(value string) Provider { return static(func() string { return value }) }

// static is a function, which package fmt does not look into.
type static func() string

func (s static) Secret(context.Context) (string, error) { return s(), nil }

func (s static) String() string               { return "secret.Static" }
func (s static) Format(f fmt.State, _ rune)   { io.WriteString(f, s.String()) }
func (s static) LogValue() slog.Value         { return slog.StringValue(s.String()) }
func (s static) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
