package gateway_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/websocket"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/podapi"
)

func TestRepeatedTerminalStartsNothingAgain(t *testing.T) {
	d := newDoor(t)
	d.sandbox()
	key := uuid.Must(uuid.NewV7()).String()
	query := script(`stty -echo; echo x >> ran; echo started; read -r line; echo "got $line"`)
	c := d.console(query, "Idempotency-Key: "+key)
	c.until("started\r\n")
	c.types("some")
	c.cut()
	again := d.console(query + "&idempotency_key=" + key)
	if again.first.ExecID != c.first.ExecID {
		t.Errorf("%s after %s", again.first.ExecID, c.first.ExecID)
	}
	again.until("started\r\n")
	again.frame(again.sent, "some thing\n"[again.sent:])
	again.until("got some thing\r\n")
	again.exits(0)
	d.walk(step{"GET", "~/files?path=ran", "", nil, 200, `^x\n$`})
}

// headerOf returns the header that lines of "Name: value" say.
func headerOf(lines string) http.Header {
	header := http.Header{}
	for line := range strings.SplitSeq(lines, "\n") {
		if name, value, ok := strings.Cut(line, ": "); ok {
			header.Set(name, value)
		}
	}
	return header
}

// wantNoUpgrade expects that what is no handshake of a WebSocket's is told so.
func wantNoUpgrade(d *door) {
	d.Helper()
	for _, headers := range [][]string{nil, {"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 8", "Sec-WebSocket-Key: MDEyMzQ1Njc4OTAxMjM0NQ=="}} {
		if got := d.send("a", "GET", job+"/terminal", "", headers...); got.StatusCode != 426 {
			d.Errorf("%q: %d %s", headers, got.StatusCode, got.text)
		}
	}
	if got := d.send("a", "GET", job+"/terminal", "", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: short", "Sec-WebSocket-Protocol: "+terminalProtocol); got.StatusCode != 400 {
		d.Errorf("a bad key: %d %s", got.StatusCode, got.text)
	}
}

func TestWhoMayOpenATerminal(t *testing.T) {
	d := newDoor(t)
	d.sandbox()
	plain := strings.Replace(d.detached(`{"args":["sleep","300"],"detach":true}`), "~/processes/", "exec_id=", 1)
	started := d.detached(`{"args":["sleep","300"],"detach":true,"terminal":{"cols":80,"rows":24}}`)
	attached := strings.Replace(started, "~/processes/", "exec_id=", 1)
	token := func(text string) string {
		return "podagent.token." + base64.RawURLEncoding.EncodeToString([]byte(text))
	}
	for _, test := range []struct {
		query     string
		protocols []string
		headers   string // separated by lines
		status    int
	}{
		{attached, []string{terminalProtocol}, "Authorization: Bearer a", 101},
		{attached, []string{terminalProtocol, token("a")}, "", 101},
		{attached, []string{token("a"), terminalProtocol}, "Origin: " + d.url, 101},
		{attached, []string{terminalProtocol, token("b")}, "", 401},
		{attached, []string{terminalProtocol, "podagent.token.?"}, "", 401},
		{attached, []string{terminalProtocol}, "", 401},
		{attached, []string{terminalProtocol, token("o")}, "", 404},
		{attached, []string{terminalProtocol}, "Authorization: Bearer o", 404},
		{"", []string{terminalProtocol}, "Authorization: Bearer o", 404},
		{"", []string{terminalProtocol}, "Authorization: Bearer a\nOrigin: https://evil.example", 403},
		{"", []string{terminalProtocol}, "Authorization: Bearer a\nOrigin: null", 403},
		{"", []string{terminalProtocol}, "Authorization: Bearer a\nOrigin: " + d.url + ".evil.example", 403},
		{"", []string{"podagent.terminal.v2"}, "Authorization: Bearer a", 400},
		{"", nil, "Authorization: Bearer a", 400},
		{"exec_id=none", []string{terminalProtocol}, "Authorization: Bearer a", 404},
		{plain, []string{terminalProtocol}, "Authorization: Bearer a", 409},
		{attached + "&script=true", []string{terminalProtocol}, "Authorization: Bearer a", 422},
		{attached + "&" + attached, []string{terminalProtocol}, "Authorization: Bearer a", 422},
		{"args=none-of-this-name", []string{terminalProtocol}, "Authorization: Bearer a", 404},
		{"args=true&script=true", []string{terminalProtocol}, "Authorization: Bearer a", 422},
		{"cols=65536", []string{terminalProtocol}, "Authorization: Bearer a", 422},
		{"idempotency_key=one", []string{terminalProtocol}, "Authorization: Bearer a", 422},
	} {
		header := headerOf(test.headers)
		conn, answer, err := dialer(test.protocols...).DialContext(t.Context(), "ws"+strings.TrimPrefix(d.url, "http")+job+"/terminal?"+test.query, header)
		if answer == nil || answer.StatusCode != test.status {
			t.Errorf("%q %q %q: %v, want %d", test.query, test.protocols, test.headers, err, test.status)
		}
		switch {
		case err != nil && answer.Header.Get("Content-Type") != "application/problem+json":
			t.Errorf("%q %q: the answer is no problem: %v", test.query, test.headers, answer.Header)
		case err == nil && conn.Subprotocol() != terminalProtocol:
			t.Errorf("%q: the subprotocol %q", test.protocols, conn.Subprotocol())
		}
		if err == nil {
			conn.Close()
		}
	}
	wantNoUpgrade(d)
	var list struct{ Processes []gateway.Process }
	if err := json.Unmarshal([]byte(d.send("a", "GET", job+"/processes", "").text), &list); err != nil || len(list.Processes) != 2 {
		t.Errorf("what was refused started something: %+v, %v", list.Processes, err)
	}
}

func TestTerminalByHTTP2IsToldToComeByHTTP1(t *testing.T) {
	d := newDoor(t)
	if made := d.send("a", "POST", "/api/v1/sandboxes", `{"id":"job-1"}`); made.StatusCode != 201 {
		t.Fatal(made.text)
	}
	protocols := &http.Protocols{}
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), "GET", d.url+"/api/v1/sandboxes/job-1/terminal", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer a")
	got, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	if got.ProtoMajor != 2 || got.StatusCode != http.StatusUpgradeRequired || got.Header.Get("Upgrade") != "" {
		t.Errorf("%s %s %v, want 426 without a header of HTTP/1.1", got.Proto, got.Status, got.Header)
	}
}

func TestGatewayThatEndsLetsItsTerminalsRunOn(t *testing.T) {
	d := newDoor(t)
	d.sandbox()
	c := d.console(script(drawer))
	c.until("drawn\r\n")
	c.types("last\n")
	c.until("got last\r\n")
	if err := d.gateway.Close(); err != nil {
		t.Error(err)
	}
	c.ends(websocket.CloseGoingAway)
	if got := d.another().send("a", "GET", job+"/processes", ""); !strings.Contains(got.text, c.first.ExecID) || strings.Contains(got.text, `"exit"`) {
		t.Errorf("the terminal does not run on: %s", got.text)
	}
}

func TestSandboxThatEndsClosesItsTerminals(t *testing.T) {
	d := newDoor(t)
	d.sandbox()
	c := d.console(script(drawer))
	c.until("drawn\r\n")
	d.walk(step{"DELETE", "~", "", nil, 204, ``})
	c.ends(websocket.CloseNormalClosure)
	if c.last.Exit == nil || c.last.Exit.Reason == podapi.Exited {
		t.Errorf("the last event is %+v", c.last)
	}
	if made := d.send("a", "POST", "/api/v1/sandboxes", `{"id":"job-1"}`); made.StatusCode != 201 {
		t.Fatal(made.text)
	}
	c = d.console(script("echo $PPID; exec sleep 300"))
	agent := 0
	if _, err := fmt.Sscan(c.until("\r\n"), &agent); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(agent, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	c.ends(4502)
	if c.last.Problem == nil || c.last.Problem.Class != "agent_lost" {
		t.Errorf("the last event is %+v", c.last)
	}
}

// inTerminals returns how many goroutines work for terminals, their calls of the agent included.
func inTerminals() (n int) {
	stacks := make([]byte, 1<<20)
	for len(stacks) == cap(stacks) {
		stacks = make([]byte, 2*cap(stacks))
		stacks = stacks[:runtime.Stack(stacks, true)]
	}
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		if slices.ContainsFunc([]string{"gateway.(*terminal)", "podapi.(*Process)", "podapi.(*stdinSender)", "podapi.(*pump)", "grpc.newClientStream"},
			func(of string) bool { return strings.Contains(stack, of) }) {
			n++
		}
	}
	return n
}

func TestTerminalsLeaveNothingBehind(t *testing.T) {
	d := newDoor(t)
	d.sandbox()
	var all []*console
	for range 10 {
		c := d.console(script("yes")) // each is held up
		c.until("y\r\n")
		all = append(all, c)
	}
	if n := inTerminals(); n < 20 {
		t.Fatalf("%d goroutines are in 10 terminals", n)
	}
	for i, c := range all {
		if i%2 == 0 {
			c.cut()
		} else {
			_ = c.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(1000, ""), time.Now().Add(hung))
			c.conn.Close()
		}
	}
	d.eventually("all goroutines have ended", func() bool { return inTerminals() == 0 })
}

// Nobody reads the frames of a caller whose input is not taken, so nobody sees it leave.
func TestTerminalWhoseInputIsHeldUpIsLeft(t *testing.T) {
	d := newDoor(t)
	gateway.SetSilence(d.gateway, 20*time.Millisecond)
	d.sandbox()
	for range 5 {
		c := d.console(script("stty raw -echo; echo ready; exec sleep 1000"))
		c.until("ready\n")
		for range 8 { // more than pipes and the terminal hold
			c.types(strings.Repeat("x", 60_000))
		}
		if inTerminals() == 0 {
			t.Fatal("no goroutine is in the terminal")
		}
		c.cut()
	}
	d.eventually("all goroutines have ended", func() bool { return inTerminals() == 0 })
}
