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
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher"
)

// another returns another gateway over the same sandboxes, for the same tenants.
func (d *door) another() *door {
	d.Helper()
	return newDoor(d.T, func(o *gateway.Options) {
		o.Launcher = &launcher.Local{StateDir: d.state}
		o.Tenants = &gateway.Keys{Path: d.keys}
	})
}

// leave shuts the gateway down, and returns what ends its patience and then waits for its end.
func (d *door) leave() (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.gateway.Shutdown(ctx) }()
	end = func() {
		cancel()
		if err := <-done; err != nil {
			d.Error(err)
		}
		done <- nil
	}
	d.Cleanup(end)
	return end
}

// followed is the output of a command, as lines bring it.
type followed struct {
	*testing.T
	lines *bufio.Scanner
	out   string
	last  gateway.OutputLine
}

func (d *door) follow(r *http.Response) *followed {
	return &followed{T: d.T, lines: bufio.NewScanner(r.Body)}
}

// next takes a line, and reports whether it was not the last.
func (f *followed) next() bool {
	f.Helper()
	if !f.lines.Scan() {
		f.Fatalf("cut off after %q: %v", f.out, f.lines.Err())
	}
	f.last = gateway.OutputLine{}
	if err := json.Unmarshal(f.lines.Bytes(), &f.last); err != nil {
		f.Fatal(err)
	}
	f.out += f.last.Data + string(f.last.DataOther)
	return f.last.Type != "exit" && f.last.Type != "reconnect"
}

func (f *followed) until(text string) {
	f.Helper()
	for !strings.HasSuffix(f.out, text) {
		if !f.next() {
			f.Fatalf("it ended with %+v", f.last)
		}
	}
}

// end reads to the last line, which must be of a type.
func (f *followed) end(kind string) {
	f.Helper()
	for f.next() {
	}
	if f.last.Type != kind || f.lines.Scan() {
		f.Fatalf("the last line is %s, after %q", f.lines.Text(), f.out)
	}
}

// rest follows the command at another gateway from where it ended here, to its end.
func (f *followed) rest(d *door) {
	f.Helper()
	path := fmt.Sprintf("%s/processes/%s/output?follow=true&stdout_offset=%d&stderr_offset=%d", job, f.last.ExecID, *f.last.StdoutOffset, *f.last.StderrOffset)
	more := d.follow(d.begin("GET", path, ""))
	more.end("exit")
	if f.out += more.out; more.last.Exit.Code != 0 {
		f.Errorf("it ended with %+v", more.last.Exit)
	}
}

// What a command writes comes whole and once, whether it was followed from its start, with a key or
// without one, or later. The gateway ends within a rune.
func TestOutputGoesOnAtAnotherGateway(t *testing.T) {
	d := newDoor(t)
	d.sandbox()
	d.walk(step{"PUT", "~/files?path=text", "held back \u00e9", nil, 201, ""})
	next := d.another()
	const command = `{"script":"head -c 11 text; echo begun >&2; until [ -e go ]; do sleep 0.01; done; tail -c 1 text; echo; cat", "stdin":"aW5wdXQ="}`
	const lines = "Accept: application/jsonl"
	all := map[string]*followed{
		"with a key":    d.follow(d.begin("POST", job+"/exec", command, lines, "Idempotency-Key: "+uuid.Must(uuid.NewV7()).String(), "Content-Type: application/json")),
		"without a key": d.follow(d.begin("POST", job+"/exec", command, lines, "Content-Type: application/json")),
	}
	for _, f := range all {
		f.until("begun\n")
	}
	started := d.detached(`{"script":"head -c 11 text; echo begun >&2; until [ -e go ]; do sleep 0.01; done; tail -c 1 text; echo; echo input","detach":true}`)
	all["that is read"] = d.follow(d.begin("GET", strings.Replace(started, "~", job, 1)+"/output?follow=true", ""))
	all["that is read"].until("begun\n")
	end := d.leave()
	for _, f := range all {
		f.end("reconnect")
	}
	next.send("a", "PUT", job+"/files?path=go", "")
	for name, f := range all {
		f.rest(next)
		text := strings.Replace(f.out, "begun\n", "", 1)
		if text != "held back \u00e9\ninput" && text != "held back \u00e9\ninput\n" {
			t.Errorf("a command %s has written %q", name, f.out)
		}
	}
	end()
}

// Who watches elsewhere before leaving misses nothing.
func TestWatchGoesOnAtAnotherGateway(t *testing.T) {
	d := newDoor(t)
	gateway.SetHandover(d.gateway, hung)
	d.sandbox()
	next := d.another()
	before := bufio.NewReader(d.begin("GET", job+"/watch?path=.", "").Body)
	upTo := func(r *bufio.Reader, text string) {
		t.Helper()
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				t.Fatalf("there is no %s: %v", text, err)
			}
			if strings.Contains(line, text) {
				return
			}
		}
	}
	upTo(before, "event: ready")
	end := d.leave()
	upTo(before, "retry: 1000")
	upTo(before, "event: reconnect")
	upTo(before, "data: {")
	next.walk(step{"PUT", "~/files?path=between", "", nil, 201, ""})
	upTo(before, "./between")
	after := bufio.NewReader(next.begin("GET", job+"/watch?path=.", "").Body)
	upTo(after, "event: ready")
	next.walk(step{"PUT", "~/files?path=later", "", nil, 201, ""})
	upTo(before, "./later")
	upTo(after, "./later")
	end()
	if rest, err := io.ReadAll(before); err == nil {
		t.Errorf("the first watch ended as if it were whole: %q", rest)
	}
}

// A command whose caller waits for its end is not ended by the gateway's: the caller learns how to
// go on.
func TestCommandOutlivesTheGatewayThatAwaitsIt(t *testing.T) {
	d := newDoor(t)
	d.sandbox()
	next := d.another()
	answers := make(chan answer, 2)
	for i, headers := range [][]string{nil, {"Idempotency-Key: " + uuid.Must(uuid.NewV7()).String()}} {
		body := fmt.Sprintf(`{"script":"echo > begun%d; until [ -e go ]; do sleep 0.01; done; echo whole"}`, i)
		go func() { answers <- d.send("a", "POST", job+"/exec", body, headers...) }()
		d.eventually("the command has begun", func() bool {
			return next.send("a", "GET", fmt.Sprintf("%s/files?path=begun%d", job, i), "").StatusCode == 200
		})
	}
	end := d.leave()
	d.eventually("it is told", func() bool { return d.gateway.Ready(t.Context()) != nil })
	end()
	next.walk(step{"PUT", "~/files?path=go", "", nil, 201, ""})
	for range 2 {
		got := <-answers
		var p gateway.Problem
		if err := json.Unmarshal([]byte(got.text), &p); err != nil || got.StatusCode != 503 || p.Class != "unavailable" || p.ExecID == "" {
			t.Fatalf("%d %s", got.StatusCode, got.text)
		}
		f := next.follow(next.begin("GET", job+"/processes/"+p.ExecID+"/output?follow=true", ""))
		f.end("exit")
		if f.out != "whole\n" || f.last.Exit.Code != 0 {
			t.Errorf("%q, and %+v", f.out, f.last.Exit)
		}
	}
}

// What cannot be told goes on for as long as the gateway has patience.
func TestUpgradedConnectionLastsUntilTheGatewayIsOver(t *testing.T) {
	d := newDoor(t)
	d.sandbox()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: mute\r\n\r\n")
		_, _ = io.Copy(conn, buffered)
	}))
	defer server.Close()
	conn := d.upgraded(server)
	end := d.leave()
	d.eventually("it is told", func() bool { return d.gateway.Ready(t.Context()) != nil })
	echoes(t, conn)
	end()
	if n, err := conn.Read(make([]byte, 1)); err == nil {
		t.Errorf("%d bytes", n)
	}
}

func echoes(t *testing.T, conn net.Conn) {
	t.Helper()
	fmt.Fprint(conn, "hello")
	if got, err := io.ReadAll(io.LimitReader(conn, 5)); string(got) != "hello" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// A gateway that drains answers, and lets callers go, over either version of HTTP.
func TestGatewayThatDrainsClosesConnections(t *testing.T) {
	d := newDoor(t)
	if err := d.gateway.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	protocols := &http.Protocols{}
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	defer transport.CloseIdleConnections()
	var dialled atomic.Int32
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		dialled.Add(1)
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	get := func() {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), "GET", d.url+"/api/v1/sandboxes", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer a")
		r, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		if text, err := io.ReadAll(r.Body); r.StatusCode != 200 || r.ProtoMajor != 2 || err != nil {
			t.Errorf("%d %s, %v", r.StatusCode, text, err)
		}
	}
	// The transport may dial twice before it knows that its first connection can be shared.
	d.eventually("a connection is kept", func() bool { get(); before := dialled.Load(); get(); return dialled.Load() == before })
	kept := dialled.Load()
	d.gateway.Drain()
	if err := d.gateway.Ready(t.Context()); err == nil {
		t.Error("it is ready")
	}
	d.eventually("the connection is let go", func() bool { get(); return dialled.Load() > kept })
	conn := d.dial()
	defer conn.Close()
	fmt.Fprintf(conn, "GET /api/v1/sandboxes HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n", tokenA)
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || r.StatusCode != 200 || !r.Close {
		t.Errorf("%+v, %v", r, err)
	}
}
