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

func (v envVar) Secret(context.Context) (string, error) {
	value, ok := os.LookupEnv(string(v))
	if !ok {
		return "", fmt.Errorf("the environment variable %s is not set", string(v))
	}
	return value, nil
}

// File returns the provider of a file's content, of the machine that this runs
// on. A line's end at its end is no part of the secret.
func File(path string) Provider { return file(path) }

type file string

func (f file) Secret(context.Context) (string, error) {
	open, err := os.Open(string(f))
	if err != nil {
		return "", err
	}
	defer open.Close()
	if info, err := open.Stat(); err == nil && info.IsDir() {
		return "", &fs.PathError{Op: "read", Path: string(f), Err: errors.New("is a directory")}
	}
	content, err := io.ReadAll(io.LimitReader(open, MaxValue+3))
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

// execDelay is how long after its context's end a command may hold its output
// open.
const execDelay = time.Second

// maxStderr is how much of what a failed command says an error has.
const maxStderr = 256

func (c command) Secret(ctx context.Context) (string, error) {
	cmd := exec.CommandContext(ctx, c[0], c[1:]...)
	cmd.WaitDelay = execDelay
	stdout := &limitedBuffer{limit: MaxValue + 3}
	stderr := &limitedBuffer{limit: maxStderr}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("%s: %w", c[0], ctx.Err())
	case err == nil:
		return trimLine(stdout.kept), nil
	case len(stdout.kept) > 0: // what it says may repeat a part of the value
		return "", fmt.Errorf("%s: %w", c[0], err)
	}
	if said := strings.TrimSpace(string(stderr.kept)); said != "" {
		return "", fmt.Errorf("%s: %w: %s", c[0], err, said)
	}
	return "", fmt.Errorf("%s: %w", c[0], err)
}

// limitedBuffer keeps the first bytes that are written to it.
type limitedBuffer struct {
	kept  []byte
	limit int
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	b.kept = append(b.kept, p[:min(len(p), b.limit-len(b.kept))]...)
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
