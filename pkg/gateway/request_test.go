package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// raw sends a request as it is, and returns the answer.
func (d *door) raw(request string) answer {
	d.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(d.url, "http://"))
	if err != nil {
		d.Fatal(err)
	}
	defer conn.Close()
	method, _, _ := strings.Cut(request, " ")
	go func() { _, _ = io.WriteString(conn, request) }() // the gateway may answer before it has read all
	r, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		d.Fatalf("%.100q: %v", request, err)
	}
	text, err := io.ReadAll(r.Body)
	if err != nil {
		d.Fatalf("%.100q: %v", request, err)
	}
	return answer{r, string(text)}
}

// wantProblem requires an answer to be a problem with a status.
func (d *door) wantProblem(what string, got answer, status int) {
	d.Helper()
	var p gateway.Problem
	if err := json.Unmarshal([]byte(got.text), &p); err != nil && got.Request.Method != "HEAD" {
		d.Errorf("%.200q: %d %.1000q: %v", what, got.StatusCode, got.text, err)
	}
	if got.StatusCode != status || p.Status != status && got.Request.Method != "HEAD" || got.Header.Get("Content-Type") != "application/problem+json" {
		d.Errorf("%.200q: %d %q %.1000s, want %d", what, got.StatusCode, got.Header, got.text, status)
	}
}

func TestRequestForNoOperationIsAProblem(t *testing.T) {
	d := newDoor(t)
	for line, status := range map[string]int{
		"GET /nothing":                 404,
		"GET /":                        404,
		"GET //api/v1/sandboxes":       404,
		"GET /api/v1/sandboxes/":       404,
		"GET /api/v1/./sandboxes":      404,
		"GET /api/v1/sandboxes/a/../b": 404,
		"GET /api/v1/sandboxes/a/processes/%2e%2e/output": 404,
		"GET /api/v1/sandboxes/a%2Fb":                     422,
		"GET /api/v1/sandboxes/a%00":                      422,
		"GET /api/v1/sandboxes?x=1":                       422,
		"GET http://other.test/api/v1/sandboxes/A":        422,
		"PATCH /api/v1/sandboxes":                         405,
		"OPTIONS /api/v1/sandboxes":                       405,
		"TRACE /api/v1/sandboxes":                         405,
		"HEAD /api/v1/sandboxes/none":                     404,
		"CONNECT other.test:80":                           404,
	} {
		got := d.raw(line + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer a\r\nConnection: close\r\n\r\n")
		d.wantProblem(line, got, status)
		if allow := got.Header.Get("Allow"); (allow != "") != (status == 405) {
			t.Errorf("%s: Allow is %q", line, allow)
		}
	}
	if got := d.send("a", "GET", "/api/v1/sandboxes", "", "Accept: application/cbor"); got.Header.Get("Content-Type") != "application/json" {
		t.Errorf("another type: %q %s", got.Header, got.text)
	}
}

func TestBodyIsReadInOneWayAlone(t *testing.T) {
	d := newDoor(t)
	d.send("a", "POST", "/api/v1/sandboxes", `{"id":"job-1"}`)
	const create, exec = "/api/v1/sandboxes", "/api/v1/sandboxes/job-1/exec"
	for _, test := range []struct {
		path, body string
		status     int
	}{
		{create, `{"id":"a","id":"b"}`, 400},
		{create, `{"id":"a","ID":"A.b"}`, 422},
		{create, `{"ID":"a"}`, 422},
		{create, "{\"id\":\"\xff\"}", 400},
		{create, `{"id":"a"} {"id":"b"}`, 400},
		{create, `{"lifetime_seconds":1e999}`, 400},
		{create, `{"lifetime_seconds":9223372037}`, 422}, // that many nanoseconds are fewer
		{create, `{"keep":"true"}`, 422},
		{create, ``, 400},
		{create, strings.Repeat("[", 100_000), 413},
		{create, `{"env":["` + strings.Repeat("x", 2<<20) + `"]}`, 413},
		{exec, `{"args":["true"],"args":["false"]}`, 400},
		{exec, `{"args":["true"],"Args":["false"]}`, 422},
		{exec, `{"ARGS":["true"]}`, 422},
		{exec, "{\"script\":\"\xff\"}", 400},
		{exec, `{"script":"true","timeout_seconds":-1}`, 422},
		{exec, `{"script":"true","timeout_seconds":1e300}`, 422},
		{exec, `{"stdin":"` + strings.Repeat("x", 5<<20) + `"}`, 413},
	} {
		d.wantProblem(test.path+" "+test.body, d.send("a", "POST", test.path, test.body), test.status)
	}
	for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "application/json; charset", "/"} {
		for _, path := range []string{create, exec} {
			d.wantProblem(kind, d.send("a", "POST", path, `{}`, "Content-Type: "+kind), 415)
		}
	}
	if list := d.send("a", "GET", create, ""); strings.Count(list.text, `"id"`) != 1 {
		t.Errorf("a request that failed made a sandbox: %s", list.text)
	}
}

// A caller cannot make the gateway answer with much more than it sends.
func TestAnswerToManyMistakesIsShort(t *testing.T) {
	d := newDoor(t)
	var body strings.Builder
	for i := range 50_000 {
		fmt.Fprintf(&body, `,"x%d":1`, i)
	}
	got := d.send("a", "POST", "/api/v1/sandboxes", `{"id":"a"`+body.String()+`}`)
	d.wantProblem("many mistakes", got, 422)
	if len(got.text) > 4096 {
		t.Errorf("the answer has %d bytes", len(got.text))
	}
}

func TestBodyThatBreaksOffIsAProblem(t *testing.T) {
	d := newDoor(t)
	d.send("a", "POST", "/api/v1/sandboxes", `{"id":"job-1"}`)
	const head = " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
	const own = "/api/v1/sandboxes/job-1"
	for _, line := range []string{"POST /api/v1/sandboxes", "POST " + own + "/exec", "PUT " + own + "/files?path=x", "PUT " + own + "/tree?path=x"} {
		d.wantProblem(line, d.raw(line+head+"zz\r\n"), 400)
	}
	chunk := "8000\r\n" + strings.Repeat(" ", 0x8000) + "\r\n"
	d.wantProblem("no end", d.raw("POST /api/v1/sandboxes"+head+strings.Repeat(chunk, 100)), 413)
}

// hurried is a listener whose connections end a read at once that has a deadline, if they are told
// to, and keep the last deadline.
type hurried struct {
	net.Listener
	mu   sync.Mutex
	now  bool
	last time.Time
}

type hurriedConn struct {
	net.Conn
	*hurried
}

func (h *hurried) Accept() (net.Conn, error) {
	conn, err := h.Listener.Accept()
	return hurriedConn{conn, h}, err
}

func (c hurriedConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last = t; c.now && t.After(time.Now()) {
		t = time.Now()
	}
	return c.Conn.SetReadDeadline(t)
}

func (h *hurried) deadline() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}

// launches tells when a sandbox is made.
type launches struct {
	launcher.Launcher
	at func()
}

func (l launches) Launch(ctx context.Context, spec launcher.Spec) (*launcher.Sandbox, error) {
	l.at()
	return l.Launcher.Launch(ctx, spec)
}

// newHurriedDoor returns a door whose connections are hurried.
func newHurriedDoor(t *testing.T, at func(*hurried)) (*door, *hurried) {
	h := &hurried{}
	g := gateway.New(gateway.Options{
		Launcher: launches{launchertest.Local(t), func() { at(h) }}, Tenants: gateway.OneTenant{Name: "acme", Token: "a"},
	})
	server := httptest.NewUnstartedServer(g)
	h.Listener = server.Listener
	server.Listener = h
	server.Start()
	t.Cleanup(func() {
		server.Close()
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return &door{T: t, url: server.URL}, h
}

// A deadline for the body would end the request, however long the work takes.
func TestWorkHasNoDeadlineOfTheBody(t *testing.T) {
	launched := false
	d, _ := newHurriedDoor(t, func(h *hurried) {
		if launched = true; !h.deadline().IsZero() {
			t.Errorf("while a sandbox is made, reads have a deadline: %v", h.deadline())
		}
	})
	if got := d.send("a", "POST", "/api/v1/sandboxes", `{"id":"a"}`); got.StatusCode != 201 || !launched {
		t.Errorf("%d %s", got.StatusCode, got.text)
	}
}

func TestSenderThatStopsIsNotAwaited(t *testing.T) {
	d, h := newHurriedDoor(t, func(*hurried) {})
	d.send("a", "POST", "/api/v1/sandboxes", `{"id":"a"}`)
	h.mu.Lock()
	h.now = true
	h.mu.Unlock()
	for _, line := range []string{
		"POST /api/v1/sandboxes", "POST /api/v1/sandboxes/a/exec", "PUT /api/v1/sandboxes/a/files?path=x", "PUT /api/v1/sandboxes/a/tree?path=y",
	} {
		d.wantProblem(line, d.raw(line+" HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer a\r\nContent-Length: 10\r\n\r\n{"), 408)
	}
	for _, header := range []string{"Authorization: Bearer wrong", "X-Sandbox-Id: a", "X-Sandbox-Id: a b"} { // who is refused
		if got := d.raw("POST /api/v1/sandboxes HTTP/1.1\r\nHost: x\r\n" + header + "\r\nContent-Length: 10\r\n\r\n{"); got.StatusCode != 401 && got.StatusCode != 400 {
			d.Errorf("%s: %d %s", header, got.StatusCode, got.text)
		}
	}
	if got := d.send("a", "GET", "/api/v1/sandboxes/a/files?path=x", ""); got.StatusCode != 404 {
		t.Errorf("part of a body became a file: %d %s", got.StatusCode, got.text)
	}
}
