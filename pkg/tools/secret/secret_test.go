// The tests of this package import nothing but it and the standard library, so that
// "make demo" can run them without a network and without any other module.
package secret_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/tools/secret"
)

// hung is when a test gives up waiting for what must come.
const hung = 2 * time.Minute

func resolve(t testing.TB, values map[string]string) *secret.Set {
	t.Helper()
	providers := map[string]secret.Provider{}
	for name, value := range values {
		providers[name] = secret.Static(value)
	}
	set, err := secret.Resolve(t.Context(), providers)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestProviders(t *testing.T) {
	t.Setenv("OF_THE_HOST", "from-env")
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte("from-file\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := secret.Resolve(t.Context(), map[string]secret.Provider{
		"A": secret.Env("OF_THE_HOST"), "B": secret.File(path), "C": secret.Exec("echo", "from command"), "D": secret.Static("static\n"),
		"E": secret.Func(func(context.Context) (string, error) { return "of one's own", nil }),
	})
	want := []string{"A=from-env", "B=from-file", "C=from command", "D=static\n", "E=of one's own"}
	if got := set.Env(); !slices.Equal(got, want) || err != nil {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

func TestErrorsNameTheSecretAndNoValue(t *testing.T) {
	t.Setenv("BLANK_OF_THE_HOST", "")
	_, err := secret.Resolve(t.Context(), map[string]secret.Provider{
		"UNSET": secret.Env("SURELY_NOT_SET"), "MISSING": secret.File("/no/such/file"), "DIR": secret.File("/"),
		"FAILS": secret.Exec("sh", "-c", "echo hunter22; echo hunter22 >&2; exit 3"), "SAYS": secret.Exec("sh", "-c", "echo not signed in >&2; exit 1"),
		"SHORT": secret.Static("abc"), "EMPTY": secret.Static(""), "LONG": secret.Static(strings.Repeat("x", secret.MaxValue+1)),
		"NUL": secret.Static("hunter22\x00"), "no-name": secret.Static("hunter22"), "NONE": nil,
		"BRIEF": secret.Exec("echo", "abc"), "VOID": secret.File(os.DevNull), "BLANK": secret.Env("BLANK_OF_THE_HOST"),
		"OTHER": secret.Exec("sh", "-c", "echo the token correct-horse is wrong >&2; exit 1"), "KNOWN": secret.Static("correct-horse"),
		"PANICS": secret.Func(func(context.Context) (string, error) { panic("hunter22") }), "NO_PROGRAM": secret.Exec("no-such-program", "hunter22"),
		"HELD": secret.Exec("sh", "-c", "echo hunter22; sleep 30 &"),
	})
	want := `cannot resolve secret "BLANK": its value (environment variable BLANK_OF_THE_HOST) is shorter than 4 bytes, too short to be redacted
cannot resolve secret "BRIEF": its value (command echo) is shorter than 4 bytes, too short to be redacted
cannot resolve secret "DIR": read /: is a directory
cannot resolve secret "EMPTY": its value is shorter than 4 bytes, too short to be redacted
cannot resolve secret "FAILS": sh: exit status 3
cannot resolve secret "HELD": sh: a process that it started holds its output open
cannot resolve secret "LONG": its value is longer than 96 KiB
cannot resolve secret "MISSING": open /no/such/file: no such file or directory
cannot resolve secret "NONE": it has no provider
cannot resolve secret "NO_PROGRAM": no-such-program: exec: "no-such-program": executable file not found in $PATH
cannot resolve secret "NUL": its value has a NUL byte
cannot resolve secret "OTHER": sh: exit status 1: the token [REDACTED:KNOWN] is wrong
cannot resolve secret "PANICS": its provider panicked
cannot resolve secret "SAYS": sh: exit status 1: not signed in
cannot resolve secret "SHORT": its value is shorter than 4 bytes, too short to be redacted
cannot resolve secret "UNSET": the environment variable SURELY_NOT_SET is not set
cannot resolve secret "VOID": its value (file /dev/null) is shorter than 4 bytes, too short to be redacted
cannot resolve secret "no-name": its name is not valid for an environment variable`
	if err == nil || err.Error() != want {
		t.Errorf("got:\n%v\nwant:\n%s", err, want)
	}
}

func TestResolveAsksAllAtOnceAndEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	begun := make(chan struct{}, 2)
	waits := secret.Func(func(ctx context.Context) (string, error) {
		begun <- struct{}{}
		<-ctx.Done()
		return "", ctx.Err()
	})
	go func() {
		<-begun
		<-begun
		cancel()
	}()
	_, err := secret.Resolve(ctx, map[string]secret.Provider{"A": waits, "B": waits, "C": secret.Exec("sleep", "60")})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestExecWhoseChildHoldsTheOutputEnds(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := exec.Command("mkfifo", fifo).Run(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := secret.Exec("sh", "-c", "cat "+fifo+" & wait").Secret(ctx)
		ended <- err
	}()
	held, err := os.OpenFile(fifo, os.O_WRONLY, 0) // once the child reads
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close() // until when the child runs
	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	case <-time.After(hung):
		t.Error("it waits for the child")
	}
}

func TestProviderThatDoesNotAnswerIsNamed(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := exec.Command("mkfifo", fifo).Run(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := secret.Resolve(ctx, map[string]secret.Provider{"FIFO": secret.File(fifo)})
	if want := `cannot resolve secret "FIFO": its provider (file ` + fifo + `) did not answer: context deadline exceeded`; err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	if end, err := os.OpenFile(fifo, os.O_WRONLY, 0); err == nil { // the reader that was left behind
		end.Close()
	}
}

func TestProvidersOfTooMuchEnd(t *testing.T) {
	_, err := secret.Resolve(t.Context(), map[string]secret.Provider{"FILE": secret.File("/dev/zero"), "EXEC": secret.Exec("yes")})
	want := `cannot resolve secret "EXEC": its value (command yes) is longer than 96 KiB
cannot resolve secret "FILE": its value (file /dev/zero) is longer than 96 KiB`
	if err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}

func TestLongestValue(t *testing.T) {
	longest := strings.Repeat("x", secret.MaxValue)
	path := filepath.Join(t.TempDir(), "long")
	if err := os.WriteFile(path, []byte(longest+"\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := secret.Resolve(t.Context(), map[string]secret.Provider{"FILE": secret.File(path), "EXEC": secret.Exec("cat", path)})
	if got := set.Env(); !slices.Equal(got, []string{"EXEC=" + longest, "FILE=" + longest}) || err != nil {
		t.Errorf("got %d secrets of other values, %v", len(got), err)
	}
}

func TestValuesAreNotPrinted(t *testing.T) {
	set := resolve(t, map[string]string{"TOKEN": "hunter22"})
	options := struct{ Secrets map[string]secret.Provider }{map[string]secret.Provider{"TOKEN": secret.Static("hunter22")}}
	var all strings.Builder
	for _, v := range []any{set, options, secret.Static("hunter22"), secret.NewRedactor(set), struct{ s *secret.Set }{set}} {
		fmt.Fprintf(&all, "%v %+v %#v %s %q %x %d\n", v, v, v, v, v, v, v)
		slog.New(slog.NewTextHandler(&all, nil)).Info("", "v", v)
		slog.New(slog.NewJSONHandler(&all, nil)).Info("", "v", v)
		if data, err := json.Marshal(v); err == nil {
			all.Write(data)
		}
	}
	for _, shown := range []string{"hunter22", fmt.Sprintf("%x", "hunter22"), fmt.Sprint([]byte("hunter22"))} {
		if strings.Contains(all.String(), shown) {
			t.Errorf("%q is shown:\n%s", shown, &all)
		}
	}
	if got := fmt.Sprint(set); got != "secrets[TOKEN]" {
		t.Errorf("the set prints %s", got)
	}
}

func TestJoinTakesTheLater(t *testing.T) {
	joined := secret.Join(resolve(t, map[string]string{"A": "first", "B": "other"}), nil, resolve(t, map[string]string{"A": "second"}))
	if got, want := joined.Env(), []string{"A=second", "B=other"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
