package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/podagent/podagent/pkg/gateway"
)

// mcpClient is a client of the Model Context Protocol.
type mcpClient struct {
	*mcp.ClientSession
	t        *testing.T
	progress chan string
}

// mcp connects a client by a token. query is that of its URL, such as ?sandbox=job-1.
func (d *door) mcp(token, query string) *mcpClient {
	d.Helper()
	progress := make(chan string, 1000)
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { progress <- r.Params.Message },
	})
	session, err := client.Connect(d.Context(), &mcp.StreamableClientTransport{
		Endpoint: d.url + "/mcp" + query, HTTPClient: &http.Client{Transport: withToken(token)}, MaxRetries: -1,
	}, nil)
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(func() { session.Close() })
	return &mcpClient{session, d.T, progress}
}

type withToken string

func (token withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(token))
	return http.DefaultTransport.RoundTrip(r)
}

// do calls a tool, with progress, and returns the texts of its answer.
func (c *mcpClient) do(tool string, input map[string]any) (text string, isError bool, err error) {
	params := &mcp.CallToolParams{Name: tool, Arguments: input}
	params.SetProgressToken("t")
	r, err := c.CallTool(c.t.Context(), params)
	if err != nil {
		return "", false, err
	}
	for _, content := range r.Content {
		text += content.(*mcp.TextContent).Text
	}
	return text, r.IsError, nil
}

// must is do for a call whose answer matches want, a regular expression.
func (c *mcpClient) must(want, tool string, input map[string]any) {
	c.t.Helper()
	text, isError, err := c.do(tool, input)
	if err != nil || isError || !regexp.MustCompile(want).MatchString(text) {
		c.t.Errorf("%s %v: %q, %v, want %q", tool, input, text, err, want)
	}
}

// fails is must for one that fails.
func (c *mcpClient) fails(want, tool string, input map[string]any) {
	c.t.Helper()
	text, isError, err := c.do(tool, input)
	if err != nil || !isError || !regexp.MustCompile(want).MatchString(text) {
		c.t.Errorf("%s %v: %q, error %t, %v, want the error %q", tool, input, text, isError, err, want)
	}
}

func bash(command string) map[string]any { return map[string]any{"command": command} }

// names returns the names of the sandboxes of a tenant.
func (d *door) names(token string) (names []string) {
	d.Helper()
	var list struct{ Sandboxes []struct{ ID string } }
	if err := json.Unmarshal([]byte(d.send(token, "GET", sandboxes, "").text), &list); err != nil {
		d.Fatal(err)
	}
	for _, s := range list.Sandboxes {
		names = append(names, s.ID)
	}
	return names
}

func TestMCPWorksInTheSandboxThatItsURLNames(t *testing.T) {
	w := &witness{}
	d := newDoor(t, func(o *gateway.Options) { o.Observers = []gateway.Observer{w} })
	c := d.mcp("a", "?sandbox=job-1")
	c.fails(`sandbox "job-1": no such sandbox`, "Bash", bash("true"))
	d.send("a", "POST", sandboxes, `{"id":"job-1"}`)

	list, err := c.ListTools(t.Context(), nil)
	if err != nil || !slices.ContainsFunc(list.Tools, func(tool *mcp.Tool) bool { return tool.Name == "Bash" }) {
		t.Errorf("the tools are %v, %v", list, err)
	}
	c.must("^Wrote f", "Write", map[string]any{"path": "f", "content": "one\ntwo\n"})
	c.must("two", "Read", map[string]any{"path": "f"})
	c.must("", "Edit", map[string]any{"path": "f", "old_text": "two", "new_text": "three"})
	c.must("^one\nthree\n$", "Bash", bash("cat f"))
	if got := d.send("a", "GET", sandboxes+"/job-1/files?path=f", ""); got.text != "one\nthree\n" {
		t.Errorf("the file is %q", got.text)
	}
	file := filepath.Join(t.TempDir(), "resource")
	c.must("", "Write", map[string]any{"path": file, "content": "text"})
	if r, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "file://" + file}); err != nil || r.Contents[0].Text != "text" {
		t.Errorf("the resource is %v, %v", r, err)
	}

	other := d.mcp("o", "?sandbox=job-1")
	other.fails(`sandbox "job-1": no such sandbox`, "Bash", bash("true"))
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if names := d.names("a"); !slices.Equal(names, []string{"job-1"}) {
		t.Errorf("after the session there are %q", names)
	}
	for _, want := range []string{
		`^acme mcp/Bash job-1 \["true"\] \[\] 200 no_sandbox `, `^acme mcp/Edit job-1 \[\] \["f"\] 200 `,
		`^acme mcp/resources/read job-1 \[\] \["` + file + `"\] 200 `, `^other mcp/Bash job-1 \["true"\] \[\] 200 no_sandbox `,
	} {
		eventually(t, "the act "+want, func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return slices.ContainsFunc(w.lines, regexp.MustCompile(want).MatchString)
		})
	}
}

func TestMCPSpeaksTheDialectThatItsURLNames(t *testing.T) {
	w := &witness{}
	d := newDoor(t, func(o *gateway.Options) { o.Observers = []gateway.Observer{w} })
	d.send("a", "POST", sandboxes, `{"id":"job-1"}`)
	c := d.mcp("a", "?sandbox=job-1&dialect=claude-code")
	c.must("^File created successfully at: f$", "Write", map[string]any{"file_path": "f", "content": "one\ntwo\n"})
	c.must("^1\tone\n2\ttwo\n3\t$", "Read", map[string]any{"file_path": "f"})
	c.must("^f:2:two$", "Grep", map[string]any{"pattern": "two", "output_mode": "content"})
	c.fails(`^unknown argument "path": this tool's is "file_path"$`, "Read", map[string]any{"path": "f"})
	c.fails("^there is no command with the id", "TaskOutput", map[string]any{"task_id": "none"})
	d.mcp("a", "?sandbox=job-1").must(`^\(lines 1-2 of 2\)\none\n`, "Read", map[string]any{"path": "f"})
	own := d.mcp("a", "?dialect=podagent")
	own.must(`^x\n`, "Bash", bash("echo x"))
	if err := own.Close(); err != nil {
		t.Error(err)
	}
	for query, want := range map[string]string{
		"?dialect=klingon":                   "there is no dialect .*klingon.* of the tools; the dialects are podagent, claude-code",
		"?dialect=":                          "there is no dialect",
		"?dialect=podagent&dialect=podagent": "each once",
		"?language=klingon":                  "may only have sandbox, dialect and checkpoint_tools, each once",
		"?checkpoint_tools=":                 "checkpoint_tools must be true or false",
	} {
		if r := d.message("a", query, initialize); r.StatusCode != 422 || !regexp.MustCompile(want).MatchString(r.text) {
			t.Errorf("%s: %d %s", query, r.StatusCode, r.text)
		}
	}
	for _, want := range []string{`^acme mcp/Write job-1 \[\] \["f"\] 200 `, `^acme mcp/TaskOutput job-1 \[\] \[\] 200 `} {
		eventually(t, "the act "+want, func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return slices.ContainsFunc(w.lines, regexp.MustCompile(want).MatchString)
		})
	}
}

func TestMCPSessionHasASandboxOfItsOwn(t *testing.T) {
	d := newDoor(t)
	c, another := d.mcp("a", ""), d.mcp("a", "")
	if names := d.names("a"); len(names) > 0 {
		t.Errorf("before the first call there are %q", names)
	}
	c.must(`^x\n.*made a new sandbox`, "Bash", bash("echo x | tee f"))
	c.must(`^x\n$`, "Bash", bash("cat f"))
	another.must("^none\n", "Bash", bash("[ -e f ] || echo none"))
	names := d.names("a")
	if len(names) != 2 || !strings.HasPrefix(names[0], "m-") {
		t.Fatalf("two sessions have %q", names)
	}
	if got := d.send("a", "GET", sandboxes+"/"+names[0], ""); strings.Contains(got.text, "podagent.dev/") {
		t.Errorf("the gateway's labels are shown: %s", got.text)
	}

	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if left := d.names("a"); len(left) != 1 {
		t.Errorf("after a session there are %q", left)
	}
	d.send("a", "DELETE", sandboxes+"/"+d.names("a")[0], "")
	if _, _, err := another.do("Bash", bash("true")); !errors.Is(err, mcp.ErrSessionMissing) {
		t.Errorf("a session without its sandbox: %v", err)
	}
	if names := d.names("a"); len(names) > 0 {
		t.Errorf("at the end there are %q", names)
	}
}

func TestSessionsAreOfTheirCallersAlone(t *testing.T) {
	doors, _ := quotaDoors(t, 1, "", "")
	d := doors[0]
	key := func(name, token string) string { return "    - {name: " + name + ", sha256: " + hashOf(token) + "}\n" }
	d.writeKeys("tenants:\n  acme:\n    quota: {sandboxes: 1}\n    keys:\n" + key("ci", "a") + key("other", "b") + "  other:\n    keys:\n" + key("ci", "o"))
	d.send("a", "POST", sandboxes, `{"id":"job-1"}`)
	for _, query := range []string{"", "?sandbox=job-1"} {
		r := d.message("a", query, initialize)
		id := r.Header.Get("Mcp-Session-Id")
		if r.StatusCode != 200 || id == "" {
			t.Fatalf("%q: %d %s", query, r.StatusCode, r.text)
		}
		const header, list = "Mcp-Session-Id: ", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
		for name, r := range map[string]answer{
			"of another key":       d.message("b", query, list, header+id),
			"of another tenant":    d.message("o", query, list, header+id),
			"of another sandbox":   d.message("a", "?sandbox=job-2", list, header+id),
			"that there never was": d.message("a", query, list, header+id+"0"),
			"that another ends":    d.send("b", "DELETE", "/mcp"+query, "", header+id),
		} {
			if r.StatusCode != 404 || !strings.Contains(r.text, `"class":"no_session"`) {
				t.Errorf("%q: a session %s: %d %s", query, name, r.StatusCode, r.text)
			}
		}
		if r := d.message("a", query, list, header+id); r.StatusCode != 200 {
			t.Errorf("%q: its own: %d %s", query, r.StatusCode, r.text)
		}
	}
	own := d.mcp("b", "")
	own.fails("quota|as many", "Bash", bash("true"))
	d.send("a", "DELETE", sandboxes+"/job-1", "")
	own.must("made a new sandbox", "Bash", bash("true"))
}

func TestMCPGoesOnWithAnotherGateway(t *testing.T) {
	doors, _ := quotaDoors(t, 2, "", "")
	first, second := doors[0], doors[1]
	first.send("a", "POST", sandboxes, `{"id":"job-1"}`)
	for _, query := range []string{"?sandbox=job-1", ""} {
		id := "Mcp-Session-Id: " + first.message("a", query, initialize).Header.Get("Mcp-Session-Id")
		if r := first.message("a", query, callBash("echo one >f"), id); r.StatusCode != 200 || strings.Contains(r.text, "isError") {
			t.Errorf("%q: %d %s", query, r.StatusCode, r.text)
		}
		r := second.message("a", query, callBash("cat f; echo two"), id)
		if r.StatusCode != 200 || !strings.Contains(r.text, `"one\ntwo\n"`) || strings.Contains(r.text, "made a new") {
			t.Errorf("%q: at the other gateway: %d %s", query, r.StatusCode, r.text)
		}
		if r := second.send("a", "DELETE", "/mcp"+query, "", id); r.StatusCode != 204 {
			t.Errorf("%q: DELETE: %d %s", query, r.StatusCode, r.text)
		}
	}
	if names := first.names("a"); !slices.Equal(names, []string{"job-1"}) {
		t.Errorf("at the end there are %q", names)
	}
}

func TestRevokedKeyEndsACallOfATool(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.writeKeys(acmeKeys("", "a", "b"))
	d.send("a", "POST", sandboxes, `{"id":"job-1"}`)
	c := d.mcp("a", "?sandbox=job-1")
	ended := make(chan error, 1)
	go func() {
		_, _, err := c.do("Bash", bash("echo begun; sleep 1000"))
		ended <- err
	}()
	<-c.progress
	waiting := make(chan answer, 1)
	go func() { waiting <- d.message("a", "?sandbox=job-1", callBash("echo > waits; sleep 2000")) }()
	eventually(t, "the call that is waited for", func() bool { return d.send("b", "GET", sandboxes+"/job-1/files?path=waits", "").StatusCode == 200 })
	d.writeKeys(acmeKeys("", "b"))
	if err := <-ended; err == nil {
		t.Error("the call succeeded")
	}
	if r := <-waiting; r.StatusCode != 401 || !strings.Contains(r.text, `"class":"unauthenticated"`) {
		t.Errorf("what had no answer yet: %d %s", r.StatusCode, r.text)
	}
	eventually(t, "the end of the command", func() bool { return d.wasKilled("b", "sleep 1000") })
	if r := d.message("a", "?sandbox=job-1", initialize); r.StatusCode != 401 || r.Header.Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("by the key: %d %s", r.StatusCode, r.text)
	}
}

func TestGatewayThatEndsSaysSoToCallsOfTools(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.send("a", "POST", sandboxes, `{"id":"job-1"}`)
	const query, list = "?sandbox=job-1", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	waiting := make(chan answer, 1)
	go func() { waiting <- d.message("a", query, callBash("echo > waits; sleep 1000")) }()
	eventually(t, "the call", func() bool { return d.send("a", "GET", sandboxes+"/job-1/files?path=waits", "").StatusCode == 200 })
	if r := d.message("a", query, list); r.StatusCode != 200 || r.Close {
		t.Errorf("before: %d, closed %t", r.StatusCode, r.Close)
	}
	d.gateway.Drain()
	if r := d.message("a", query, list); r.StatusCode != 200 || !r.Close {
		t.Errorf("meanwhile: %d, closed %t", r.StatusCode, r.Close)
	}
	now, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.gateway.Shutdown(now); err != nil {
		t.Error(err)
	}
	if r := <-waiting; r.StatusCode != 503 || !strings.Contains(r.text, `"class":"unavailable"`) {
		t.Errorf("the call: %d %s", r.StatusCode, r.text)
	}
}

func TestCancelledCallOfAToolEndsItsCommand(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.send("a", "POST", sandboxes, `{"id":"job-1"}`)
	const query = "?sandbox=job-1"
	id := "Mcp-Session-Id: " + d.message("a", query, initialize).Header.Get("Mcp-Session-Id")
	ended := make(chan answer, 1)
	go func() { ended <- d.message("a", query, callBash("echo > begun; sleep 1000"), id) }()
	eventually(t, "the command", func() bool { return d.send("a", "GET", sandboxes+"/job-1/files?path=begun", "").StatusCode == 200 })
	d.message("a", query, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`, id)
	<-ended
	eventually(t, "the end of the command", func() bool { return d.wasKilled("a", "sleep 1000") })

	// A caller that leaves cancels, too.
	ctx, leave := context.WithCancel(t.Context())
	c := d.mcp("a", query)
	go func() {
		<-c.progress
		leave()
	}()
	params := &mcp.CallToolParams{Name: "Bash", Arguments: bash("echo begun; sleep 2000")}
	params.SetProgressToken("t")
	if _, err := c.CallTool(ctx, params); err == nil {
		t.Error("the call succeeded")
	}
	eventually(t, "the end of the command", func() bool { return d.wasKilled("a", "sleep 2000") })
}

func TestSandboxOfASessionThatIsIdleIsRemoved(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.send("a", "POST", sandboxes, `{"id":"job-1"}`)
	c := d.mcp("a", "")
	c.must("made a new sandbox", "Bash", bash("true"))
	go gateway.RemoveIdleSandboxes(t.Context(), d.gateway, 500*time.Millisecond)
	eventually(t, "the end of the session's sandbox", func() bool { return len(d.names("a")) == 1 })
	if _, _, err := c.do("Bash", bash("true")); !errors.Is(err, mcp.ErrSessionMissing) {
		t.Errorf("the session goes on: %v", err)
	}
	if names := d.names("a"); !slices.Equal(names, []string{"job-1"}) {
		t.Errorf("at the end there are %q", names)
	}
}

// Nobody can tell then whether the session had a sandbox, with files, that has ended.
func TestSessionThatWasIdleForLongGetsNoNewSandbox(t *testing.T) {
	d := newDoor(t)
	caller := gateway.Caller{Tenant: "acme", Key: hashOf("a")[:8]}
	for since, status := range map[time.Duration]int{59 * time.Minute: 200, 61 * time.Minute: 404} {
		id := "Mcp-Session-Id: " + gateway.NewSessionID(caller, "", time.Now().Add(-since))
		if r := d.message("a", "", callBash("true"), id); r.StatusCode != status {
			t.Errorf("after %v: %d %s", since, r.StatusCode, r.text)
		}
	}
	if names := d.names("a"); len(names) != 1 {
		t.Errorf("there are %q", names)
	}
}

func TestRequestsThatAreNoneOfMCP(t *testing.T) {
	d := newDoor(t)
	d.send("a", "POST", sandboxes, `{"id":"job-1"}`)
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	for name, test := range map[string]struct {
		token, method, query, body string
		headers                    []string
		status                     int
		want                       string
	}{
		"no token":             {"", "POST", "", initialize, nil, 401, `"class":"unauthenticated"`},
		"a wrong token":        {"x", "POST", "", initialize, nil, 401, `"class":"unauthenticated"`},
		"the stream":           {"a", "GET", "", "", nil, 405, `POST or DELETE`},
		"a put":                {"a", "PUT", "", "", nil, 405, `POST or DELETE`},
		"an end of nothing":    {"a", "DELETE", "", "", nil, 404, `"class":"no_session"`},
		"a wrong Accept":       {"a", "POST", "", list, []string{"Accept: application/json"}, 400, `Accept`},
		"a wrong type":         {"a", "POST", "", list, []string{"Content-Type: text/plain"}, 415, `application/json`},
		"garbage":              {"a", "POST", "", `{"jsonrpc`, nil, 400, `malformed`},
		"nothing":              {"a", "POST", "", ``, nil, 400, ``},
		"a batch":              {"a", "POST", "", " [" + list + "]", nil, 400, `one by one`},
		"a large message":      {"a", "POST", "", strings.Repeat(" ", 4<<20) + list, nil, 413, `"class":"too_large"`},
		"a call of no session": {"a", "POST", "", callBash("true"), nil, 400, `Mcp-Session-Id`},
		"no such tool":         {"a", "POST", "?sandbox=job-1", strings.Replace(callBash("true"), "Bash", "None", 1), nil, 200, `unknown tool`},
		"a wrong name":         {"a", "POST", "?sandbox=acme.job-1", list, nil, 422, `a sandbox's name`},
		"an empty name":        {"a", "POST", "?sandbox=", list, nil, 422, `a sandbox's name`},
		"two names":            {"a", "POST", "?sandbox=job-1&sandbox=job-2", list, nil, 422, `once`},
		"another query":        {"a", "POST", "?id=job-1", list, nil, 422, `sandbox`},
		"a page":               {"a", "POST", "?sandbox=job-1", list, []string{"Origin: " + d.url}, 403, `"class":"not_allowed"`},
		"a page of the host":   {"a", "GET", "", "", []string{"Sec-Fetch-Site: same-origin"}, 403, `"class":"not_allowed"`},
		"another path":         {"a", "POST", "/x", list, nil, 404, ``},
	} {
		got := d.send(test.token, test.method, "/mcp"+test.query, test.body, append([]string{"Accept: application/json, text/event-stream"}, test.headers...)...)
		if got.StatusCode != test.status || !regexp.MustCompile(test.want).MatchString(got.text) {
			t.Errorf("%s: %d %s, want %d %s", name, got.StatusCode, got.text, test.status, test.want)
		}
		if len(got.Cookies()) > 0 || got.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", name, got.Header)
		}
	}
	if names := d.names("a"); len(names) != 1 {
		t.Errorf("there are %q", names)
	}
}

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`

// callBash is the message 7, which runs a command.
func callBash(command string) string {
	text, _ := json.Marshal(command)
	return `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"Bash","arguments":{"command":` + string(text) + `}}}`
}

// message sends a message.
func (d *door) message(token, query, body string, headers ...string) answer {
	d.Helper()
	return d.send(token, "POST", "/mcp"+query, body, append([]string{"Accept: application/json, text/event-stream"}, headers...)...)
}

// wasKilled reports whether a command of job-1 that ends in this text was: it has not ended by itself.
func (d *door) wasKilled(token, text string) bool {
	return regexp.MustCompile(text + `"[^}]*"exit":{[^}]*"reason":"signalled"`).MatchString(d.send(token, "GET", sandboxes+"/job-1/processes", "").text)
}

// The SDK would take minutes and gigabytes to read such messages.
func TestMessageThatIsTooIntricateIsRefused(t *testing.T) {
	d := newDoor(t)
	message := func(meta string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"a":` + meta + `}}}`
	}
	for meta, status := range map[string]int{
		strings.Repeat("[", 30) + strings.Repeat("]", 30):      200,
		strings.Repeat("[", 500) + strings.Repeat("]", 500):    413,
		"[" + strings.Repeat("[],", 100_000) + "0]":            413,
		"[" + strings.Repeat("0,", 100_000) + "0]":             413,
		`"` + strings.Repeat(`[{,\"`, 100_000) + `"`:           200,
		`"\\` + strings.Repeat(`x`, 100_000) + `",` + `"b":[]`: 200,
	} {
		got := d.send("a", "POST", "/mcp?sandbox=job-1", message(meta), "Accept: application/json, text/event-stream")
		if got.StatusCode != status {
			t.Errorf("%.20s…: %d %.200s", meta, got.StatusCode, got.text)
		}
	}
}
