package e2b

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// box is a sandbox that is called as E2B's clients call it.
type box struct {
	*testing.T
	url, id, token string
	gateway        *gateway.Gateway
	sandbox        *launcher.Sandbox // the same one, without the gateway
}

func newBox(t *testing.T, edit ...func(*gateway.Options)) *box {
	t.Helper()
	t.Setenv("HOME", t.TempDir()) // commands run in login shells: what they read there must be no user's own
	keys := filepath.Join(t.TempDir(), "keys.yaml")
	text := fmt.Sprintf("tenants:\n  acme:\n    keys:\n    - sha256: %x\n", sha256.Sum256([]byte("a")))
	if err := os.WriteFile(keys, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	l := launchertest.Local(t)
	o := gateway.Options{Launcher: l, Tenants: &gateway.Keys{Path: keys}, Faces: []gateway.Face{&Face{}}}
	for _, edit := range edit {
		edit(&o)
	}
	g := gateway.New(o)
	server := httptest.NewServer(g)
	t.Cleanup(func() {
		server.Close()
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	b := &box{T: t, url: server.URL, gateway: g}
	var made struct{ SandboxID, EnvdAccessToken string }
	code, body := b.send("POST", "/v2/sandboxes", `{}`, "X-API-Key: a", "Content-Type: application/json")
	if err := json.Unmarshal([]byte(body), &made); err != nil || code != 201 {
		t.Fatal(body)
	}
	b.id, b.token = made.SandboxID, made.EnvdAccessToken
	name, _, _ := strings.Cut(b.id, idSeparator)
	var err error
	if b.sandbox, err = l.Open(t.Context(), "acme."+name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.sandbox.Close() })
	return b
}

func (b *box) request(ctx context.Context, method, path, body string, headers ...string) *http.Response {
	b.Helper()
	r, err := http.NewRequestWithContext(ctx, method, b.url+path, strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		r.Header.Set(name, value)
	}
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	return got
}

func (b *box) send(method, path, body string, headers ...string) (int, string) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), hung)
	defer cancel()
	r := b.request(ctx, method, path, body, headers...)
	defer r.Body.Close()
	got, err := io.ReadAll(r.Body)
	if err != nil {
		b.Fatal(err)
	}
	return r.StatusCode, string(got)
}

// headers are those of a call of envd, and more.
func (b *box) headers(kind string, more ...string) []string {
	return append([]string{"E2b-Sandbox-Id: " + b.id, "E2b-Sandbox-Port: 49983", "X-Access-Token: " + b.token, "Content-Type: " + kind}, more...)
}

// call makes a unary call of process.Process.
func (b *box) call(method, body string, headers ...string) (int, string) {
	b.Helper()
	return b.send("POST", "/process.Process/"+method, body, b.headers(unaryType, headers...)...)
}

// stream is the answer to a call that has begun.
type stream struct {
	*box
	body   io.ReadCloser
	leave  context.CancelFunc
	pid    int
	unread string // output that until has left
}

// open begins a call that is answered by a stream.
func (b *box) open(method, body string, headers ...string) *stream {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), hung)
	r := b.request(ctx, "POST", "/process.Process/"+method, envelope(0, body), b.headers(streamType, headers...)...)
	if r.StatusCode != 200 {
		text, _ := io.ReadAll(r.Body)
		b.Fatalf("%s: %d %s", method, r.StatusCode, text)
	}
	b.Cleanup(func() { cancel(); r.Body.Close() })
	return &stream{box: b, body: r.Body, leave: cancel}
}

// next returns the next message, or how the stream ended.
func (s *stream) next() (e processEvent, ended string) {
	s.Helper()
	var head [envelopeHeader]byte
	if _, err := io.ReadFull(s.body, head[:]); err != nil {
		return e, err.Error()
	}
	message := make([]byte, binary.BigEndian.Uint32(head[1:]))
	if _, err := io.ReadFull(s.body, message); err != nil {
		return e, err.Error()
	}
	if head[0] == 2 {
		return e, string(message)
	}
	var r processResponse
	if err := json.Unmarshal(message, &r); err != nil {
		s.Fatalf("%s: %v", message, err)
	}
	return r.Event, ""
}

// start begins a process, and returns once it has started.
func (b *box) start(body string, headers ...string) *stream {
	b.Helper()
	return b.open("Start", body, headers...).started()
}

// startInTime is start for a process whose time is short, but enough to start.
func (b *box) startInTime(body string) *stream {
	b.Helper()
	for ms := 200; ; ms *= 2 {
		s := b.open("Start", body, fmt.Sprintf("Connect-Timeout-Ms: %d", ms))
		if e, _ := s.next(); e.Start != nil {
			s.pid = e.Start.PID
			return s
		}
	}
}

func (s *stream) started() *stream {
	s.Helper()
	e, ended := s.next()
	if e.Start == nil || e.Start.PID <= 0 {
		s.Fatalf("the first event is %+v, and not a start: %s", e, ended)
	}
	s.pid = e.Start.PID
	return s
}

// result is what came of a process.
type result struct {
	stdout, stderr, pty string
	end                 *endEvent
	ended               string // the last message of the stream
}

// rest reads a stream to its end.
func (s *stream) rest() (r result) {
	s.Helper()
	var stdout, stderr, pty strings.Builder
	for r.ended == "" {
		var e processEvent
		e, r.ended = s.next()
		switch {
		case e.Data != nil:
			stdout.Write(e.Data.Stdout)
			stderr.Write(e.Data.Stderr)
			pty.Write(e.Data.PTY)
		case e.End != nil:
			r.end = e.End
		}
	}
	r.stdout, r.stderr, r.pty = stdout.String(), stderr.String(), pty.String()
	return r
}

// until reads a stream until its output has a text, after those that it was read to before.
func (s *stream) until(text string) {
	s.Helper()
	for !strings.Contains(s.unread, text) {
		e, ended := s.next()
		if ended != "" || e.End != nil {
			s.Fatalf("the stream ended before %q: %q %s", text, s.unread, ended)
		}
		if e.Data != nil {
			s.unread += string(e.Data.Stdout) + string(e.Data.PTY)
		}
	}
	_, s.unread, _ = strings.Cut(s.unread, text)
}

// script is the request that SDKs send for a command.
func script(text string, more ...string) string {
	command, _ := json.Marshal([]string{"-l", "-c", text})
	return fmt.Sprintf(`{"process":{"cmd":"/bin/bash","args":%s},"stdin":false%s}`, command, strings.Join(more, ""))
}

func of(pid int) string { return fmt.Sprintf(`{"process":{"pid":%d}}`, pid) }

// running returns the processes that run, by their pids.
func (b *box) running() map[int]processInfo {
	b.Helper()
	code, body := b.call("List", `{}`)
	var list listProcessesResponse
	if err := json.Unmarshal([]byte(body), &list); err != nil || code != 200 {
		b.Fatalf("%d %s: %v", code, body, err)
	}
	all := map[int]processInfo{}
	for _, p := range list.Processes {
		all[p.PID] = p
	}
	return all
}

// eventually waits until something holds.
func (b *box) eventually(what string, holds func() bool) {
	b.Helper()
	eventually(b.T, what, holds)
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for begun := time.Now(); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Since(begun) > hung {
			t.Fatalf("%s: not after %v", what, hung)
		}
	}
}

// touch returns a file that a process can wait for.
func (b *box) touch(name string) {
	b.Helper()
	if err := b.sandbox.WriteFile(b.Context(), name, nil, 0); err != nil {
		b.Fatal(err)
	}
}
