package gateway_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"strings"
	"sync"
	"testing"

	"github.com/podagent/podagent/pkg/gateway"
)

// FuzzMCP sends messages of the Model Context Protocol that are nearly right, two at once of one
// session, beside another tenant's sandbox and sessions. In a query {OTHER} stands for the name of
// that sandbox. A local sandbox isolates nothing, so the messages are kept harmless: see
// harmlessMessage.
func FuzzMCP(f *testing.F) {
	p := newMCPProbe(f)
	const (
		list   = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
		cancel = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`
		read   = `{"jsonrpc":"2.0","id":"a","method":"resources/read","params":{"uri":"file:///x"}}`
	)
	call := func(tool, input string) string {
		return `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + input + `,"_meta":{"progressToken":"t"}}}`
	}
	f.Add("POST", uint8(0), "", "sandbox=job-1", uint8(0), "", []byte(initialize), []byte(list))
	f.Add("POST", uint8(1), "", "sandbox=job-1", uint8(0), "", []byte(callBash("x")), []byte(cancel))
	f.Add("POST", uint8(2), "", "", uint8(0), "", []byte(callBash("x")), []byte(call("BashOutput", `{"id":"","offset":-1}`)))
	f.Add("POST", uint8(3), "", "", uint8(0), "", []byte(call("Read", `{"path":"secret"}`)), []byte(initialize))
	f.Add("POST", uint8(4), "", "sandbox={OTHER}", uint8(0), "", []byte(call("Grep", `{"pattern":"."}`)), []byte(cancel))
	f.Add("POST", uint8(5), "1-a-0", "sandbox=other.job-1", uint8(0), "", []byte(call("Glob", `{"pattern":"**","limit":1e99}`)), []byte(nil))
	f.Add("DELETE", uint8(2), "", "", uint8(0), "", []byte(call("Edit", `{"path":"x","old_text":"","new_text":null}`)), []byte(list))
	f.Add("DELETE", uint8(1), "", "sandbox=job-1", uint8(0), "", []byte(nil), []byte(call("Bash", `{"command":"x","run_in_background":true}`)))
	f.Add("POST", uint8(1), "", "sandbox=job-1&checkpoint_tools=true", uint8(0), "", []byte(call("Restore", `{"id":[],"paths":"x"}`)), []byte(call("Diff", `{"from":"0","to":null}`)))
	f.Add("GET", uint8(1), "", "sandbox=%zz", uint8(5), "1_0", []byte(nil), []byte(read))
	f.Add("POST", uint8(0), "", "sandbox=job-1&sandbox=%00", uint8(4), "http://gateway", []byte(list), []byte(nil))
	f.Add("POST", uint8(1), "", "sandbox=job-1", uint8(6), "tools/call", []byte(list+list), []byte(`{"method":"ping","jsonrpc":"2.0","id":{"a":1},"method":"tools/list","METHOD":null}`))
	f.Add("POST", uint8(1), "", "sandbox=job-1", uint8(3), "2026-07-28", []byte(strings.Repeat(`{"params":[`, 40)), []byte("{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"\xff\\ud800\",\"params\":[]}"))
	f.Add("POST", uint8(1), "", "sandbox=job-1", uint8(0), "", []byte(`{"jsonrpc":"2.0","id":1,"result":{}}`), []byte(`{"jsonrpc":"2.0","id":null,"error":{"code":1e400,"message":[]}}`))
	f.Add("POST", uint8(1), "", "sandbox=job-1", uint8(0), "", []byte(`{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/resource","uri":""},"argument":null}}`), []byte(`[`+list+`]`))
	f.Add("POST", uint8(1), "", "sandbox=job-1", uint8(1), "application/json", []byte(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"_meta":[]}}`), []byte(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"file:///x"}}`))
	f.Fuzz(func(t *testing.T, method string, session uint8, id, query string, header uint8, value string, first, second []byte) {
		query = strings.ReplaceAll(query, "{OTHER}", p.mark)
		if ids := []string{"", p.named, p.own, p.othersOwn, p.othersNamed}; int(session) < len(ids) {
			id = ids[session]
		}
		var sent sync.WaitGroup
		if len(second) > 0 {
			sent.Go(func() { p.send(t, p.message(http.MethodPost, query, id, 0, "", second), second) })
		}
		got := p.send(t, p.message(method, query, id, header, value, first), first)
		sent.Wait()
		if got != nil && got.Code == http.StatusNoContent && id == p.own {
			p.endsNothingElse(t)
			p.own = p.begin("a", "")
		}
	})
}

// mcpHeaders are those that are read of a message.
var mcpHeaders = []string{"X-None", "Accept", "Content-Type", "Mcp-Protocol-Version", "Origin", "Last-Event-Id", "Mcp-Method", "Mcp-Name", "Mcp-Session-Id", "Sec-Fetch-Site"}

// mcpProbe is a probe with sessions of both tenants, in a sandbox that they name and of their own.
type mcpProbe struct {
	*probe
	workdir, secret                    string // job-1's, and what is in a file of the other's sandbox
	named, own, othersNamed, othersOwn string // ids
}

func newMCPProbe(f *testing.F) *mcpProbe {
	p := &mcpProbe{probe: newProbe(f), secret: "s" + rand.Text()}
	p.must(f, p.mark, "PUT", "/api/v1/sandboxes/"+p.mark+"/files?path=f/secret&parents=true", p.secret)
	var made gateway.Sandbox
	if err := json.Unmarshal(p.must(f, "a", "GET", "/api/v1/sandboxes/job-1", ""), &made); err != nil {
		f.Fatal(err)
	}
	p.workdir = made.Workdir
	p.named, p.own = p.begin("a", "sandbox=job-1"), p.begin("a", "")
	p.othersNamed, p.othersOwn = p.begin(p.mark, "sandbox="+p.mark), p.begin(p.mark, "")
	if p.named == "" || p.own == "" || p.othersNamed == "" || p.othersOwn == "" {
		f.Fatal("no session begins")
	}
	return p
}

// begin begins a session, and returns its id.
func (p *mcpProbe) begin(token, query string) string {
	r := p.message(http.MethodPost, query, "", 0, "", []byte(initialize))
	r.Header.Set("Authorization", "Bearer "+token)
	return p.answer(r).Header().Get("Mcp-Session-Id")
}

func (p *mcpProbe) message(method, query, id string, header uint8, value string, body []byte) *http.Request {
	r := p.request(method, "/mcp", p.harmlessMessage(body))
	r.URL.RawQuery = query
	r.Header.Set("Accept", "application/json, text/event-stream")
	if id != "" {
		r.Header.Set("Mcp-Session-Id", id)
	}
	r.Header.Set(mcpHeaders[int(header)%len(mcpHeaders)], value)
	return r
}

// answer returns the whole answer to a message; nil if it was cut off.
func (p *mcpProbe) answer(r *http.Request) (got *httptest.ResponseRecorder) {
	ctx, cancel := context.WithTimeout(context.Background(), hungCall)
	defer cancel()
	got = httptest.NewRecorder()
	defer func() {
		if cut := recover(); cut != nil {
			if cut != http.ErrAbortHandler || ctx.Err() != nil {
				panic(cut)
			}
			got = nil
		}
	}()
	p.gateway.ServeHTTP(got, r.WithContext(ctx))
	return got
}

// send sends a message, and checks the answer. body is the message as it was before it was made
// harmless.
func (p *mcpProbe) send(t *testing.T, r *http.Request, body []byte) *httptest.ResponseRecorder {
	got := p.answer(r)
	if got == nil {
		return nil
	}
	fail := func(what string) {
		t.Errorf("%s %s %q %q: %d %v %s: %s", r.Method, r.URL, r.Header, body, got.Code, got.Header(), got.Body, what)
	}
	whole, asked := fmt.Sprint(got.Header(), got.Body), fmt.Sprint(r.URL, r.Header, string(body))
	switch {
	case strings.Contains(whole, p.secret) || strings.Contains(whole, p.mark) && !strings.Contains(asked, p.mark):
		fail("it has something of another tenant")
	case strings.Contains(whole, "the gateway has a fault"):
		fail("something panicked")
	case got.Code >= 500 && (got.Code < 501 || got.Code > 504):
		fail("the status should not be")
	case got.Code < 300 && r.Header.Get("Mcp-Session-Id") != "" && !strings.Contains(p.named+p.own, r.Header.Get("Mcp-Session-Id")):
		fail("the session is not the caller's")
	case got.Code < 300 && r.Method == http.MethodPost && !json.Valid(p.harmlessMessage(body)):
		fail("what is no JSON is taken")
	case got.Code == http.StatusOK && !isMessages(got):
		fail("it is none of the protocol")
	case got.Code >= 300 && got.Code < 400:
		fail("it leads elsewhere")
	}
	return got
}

// isMessages reports whether an answer is messages of JSON-RPC.
func isMessages(got *httptest.ResponseRecorder) bool {
	kind, _, _ := mime.ParseMediaType(got.Header().Get("Content-Type"))
	lines := strings.Split(got.Body.String(), "\n")
	if kind != "text/event-stream" {
		lines = []string{"data: " + got.Body.String()}
	}
	for _, line := range lines {
		text, isData := strings.CutPrefix(line, "data: ")
		var message struct {
			Version string `json:"jsonrpc"`
		}
		if isData && text != "" && (json.Unmarshal([]byte(text), &message) != nil || message.Version != "2.0") {
			return false
		}
	}
	return true
}

// endsNothingElse checks that the end of a session has removed its own sandbox at most.
func (p *mcpProbe) endsNothingElse(t *testing.T) {
	t.Helper()
	for token, name := range map[string]string{"a": "job-1", p.mark: p.mark} {
		r := p.request(http.MethodGet, "/api/v1/sandboxes/"+name, nil)
		r.Header.Set("Authorization", "Bearer "+token)
		if got := p.call(r); got == nil || got.Code != http.StatusOK {
			t.Errorf("the end of a session ends %s: %v", name, got)
		}
	}
}

// harmlessMessage lets a message that works in a sandbox do so below the directory f of its workdir,
// and run nothing but true. Messages that do not stay as they are, byte by byte.
func (p *mcpProbe) harmlessMessage(body []byte) []byte {
	works := []string{"call", "read", `\u`} // the last may be one of the others
	isOne := func(word string) bool { return bytes.Contains(body, []byte(word)) }
	if !isOne(works[0]) && !isOne(works[1]) && !isOne(works[2]) {
		return body
	}
	var value any
	if json.Unmarshal(body, &value) != nil { // others may read more into it
		return []byte(strings.NewReplacer("call", "c-ll", "read", "r-ad", `\u`, "/u").Replace(string(body)))
	}
	safe, _ := json.Marshal(p.harmlessPart("", value))
	return safe
}

func (p *mcpProbe) harmlessPart(name string, value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			v[key] = p.harmlessPart(strings.ToLower(key), inner)
		}
	case []any:
		for i, inner := range v {
			v[i] = p.harmlessPart(name, inner)
		}
	case string:
		switch name {
		case "command":
			return "true"
		case "path", "cwd", "pattern":
			return below(v)
		case "uri":
			return p.harmlessURI(v)
		}
	}
	return value
}

func (p *mcpProbe) harmlessURI(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return text
	}
	u.Path, u.RawPath = path.Join(p.workdir, below(u.Path)), ""
	return u.String()
}
