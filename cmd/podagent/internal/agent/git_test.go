package agent

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/podagent/podagent/pkg/podapi"
)

// lockedBuffer is a buffer for several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

func TestCheckoutIsACallThatLeavesNoProcess(t *testing.T) {
	workdir, socket := serveTest(t, nil)
	c := dial(t, podapi.DialOptions{Dial: unixDialer(socket)})
	source := t.TempDir()
	script := "git init -q -b main && echo one >file && git add file && git -c user.name=A -c user.email=a@example.com commit -qm one"
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = source
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want := podapi.CheckoutResult{Ref: "refs/heads/main", Changed: true}
	got, err := c.Checkout(t.Context(), podapi.Checkout{Dir: ".", URL: source})
	if want.Commit = got.Commit; err != nil || got != want || len(got.Commit) < 40 {
		t.Errorf("%+v, %v", got, err)
	}
	if data, err := c.ReadFile(t.Context(), workdir+"/file"); err != nil || string(data) != "one\n" {
		t.Errorf("%q, %v", data, err)
	}
	if list, err := c.Processes(t.Context()); err != nil || len(list) > 0 {
		t.Errorf("%v, %v", list, err)
	}
}

func TestCheckoutsThatFailSayOfWhichDirectory(t *testing.T) {
	_, socket := serveTest(t, nil)
	c := dial(t, podapi.DialOptions{Dial: unixDialer(socket)})
	for dir, is := range map[string]error{"": syscall.EINVAL, "none": fs.ErrNotExist} {
		_, err := c.Checkout(t.Context(), podapi.Checkout{Dir: dir, URL: "/x"})
		failed, ok := errors.AsType[*fs.PathError](err)
		if !ok || failed.Op != "checkout" || failed.Path != dir || !errors.Is(err, is) {
			t.Errorf("in %q: %v", dir, err)
		}
	}
}

// Some servers repeat in their answer what they got.
func TestPasswordOfACheckoutIsInNoErrorAndNoLog(t *testing.T) {
	const password = "hunter2-is-a-secret"
	var log lockedBuffer
	_, socket := serveTest(t, func(c *Config) {
		c.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, got, _ := r.BasicAuth()
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(http.StatusForbidden)
		w.Write([]byte("I got " + r.Header.Get("Authorization") + ", which is " + got))
	}))
	defer server.Close()
	c := dial(t, podapi.DialOptions{Dial: unixDialer(socket)})
	for _, url := range []string{server.URL, "http://u:" + password + "@127.0.0.1:1/x", "http://" + password + "@127.0.0.1:1/x", "http://127.0.0.1:" + password} {
		_, err := c.Checkout(t.Context(), podapi.Checkout{Dir: ".", URL: url, Username: "u", Password: password})
		if err == nil || strings.Contains(err.Error(), password) {
			t.Errorf("got %v", err)
		}
		if url == server.URL && !strings.Contains(err.Error(), "I got Basic [REDACTED], which is [REDACTED]") {
			t.Errorf("the server's words are missing: %v", err)
		}
	}
	if text := log.String(); strings.Contains(text, password) || !strings.Contains(text, "Git/Checkout") {
		t.Errorf("the log has %s", text)
	}
}
