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

// Provider fetches a secret from the place where it is kept.
type Provider interface {
	// Secret returns the value. It must return when ctx ends, and its error must
	// not contain the value. It may be called concurrently.
	Secret(ctx context.Context) (string, error)
}

// Func is a function as a Provider.
type Func func(ctx context.Context) (string, error)

// Secret calls f.
func (f Func) Secret(ctx context.Context) (string, error) { return f(ctx) }

// Env returns a provider that reads an environment variable of this program.
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

// File returns a provider that reads a file on this program's machine. It removes
// one newline at the end.
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

// Exec returns a provider that runs a command on this program's machine, such as a
// password manager: Exec("op", "read", "op://Engineering/GitHub/token"). The
// secret is the command's standard output, without one newline at the end.
func Exec(name string, args ...string) Provider {
	return command(append([]string{name}, args...))
}

type command []string

func (c command) source() string { return "command " + c[0] }

const (
	// maxRead bounds the bytes read for a secret: one more than the longest value
	// with a newline.
	maxRead = MaxValue + len("\r\n") + 1
	// maxStderr bounds the bytes of a failed command's stderr in an error.
	maxStderr = 256
	// execDelay is how long a process that the command started may hold its output
	// open after the command's end.
	execDelay = time.Second
)

var errHeldOpen = errors.New("a process that it started holds its output open")

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
		return string(stdout.kept), nil // resolve will refuse it as too long
	case err == nil:
		return trimLine(stdout.kept), nil
	case errors.Is(err, exec.ErrWaitDelay):
		err = errHeldOpen
	case len(stdout.kept) == 0 && said != "": // with a value on stdout, stderr may repeat a part of it
		err = fmt.Errorf("%w: %s", err, said)
	}
	return "", fmt.Errorf("%s: %w", c[0], err)
}

// limitedBuffer keeps the first limit bytes written to it, and calls full when it
// has them.
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

// trimLine returns content without one newline at its end.
func trimLine(content []byte) string {
	return strings.TrimSuffix(strings.TrimSuffix(string(content), "\n"), "\r")
}

// Static returns a provider of a value that the program already has.
func Static(value string) Provider { return static(func() string { return value }) }

// static is a function, because package fmt cannot print its value.
type static func() string

func (s static) Secret(context.Context) (string, error) { return s(), nil }

func (s static) String() string               { return "secret.Static" }
func (s static) Format(f fmt.State, _ rune)   { io.WriteString(f, s.String()) }
func (s static) LogValue() slog.Value         { return slog.StringValue(s.String()) }
func (s static) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
