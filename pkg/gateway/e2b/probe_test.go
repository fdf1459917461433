package e2b

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// probe calls a whole gateway as a tenant, acme, whose sandbox is job. Another tenant has a sandbox with a
// mark in its labels, files and output, theirs. A local sandbox isolates nothing, so what is sent is kept harmless.
type probe struct {
	gateway *gateway.Gateway
	mark    string
	token   string // of the sandbox job
	pid     string // of a command in it that waits for input
}

const (
	probedID = "job" + idSeparator + "acme"
	theirID  = "theirs" + idSeparator + "other"
)

func newProbe(f *testing.F) *probe {
	f.Helper()
	p := &probe{mark: "m" + strings.ToLower(rand.Text())}
	keys := filepath.Join(f.TempDir(), "keys.yaml")
	text := fmt.Sprintf("tenants:\n  acme: {keys: [{sha256: %x}]}\n  other: {keys: [{sha256: %x}]}\n", sha256.Sum256([]byte("a")), sha256.Sum256([]byte(p.mark)))
	if err := os.WriteFile(keys, []byte(text), 0o600); err != nil {
		f.Fatal(err)
	}
	p.gateway = gateway.New(gateway.Options{
		Launcher: launchertest.Local(f), Tenants: &gateway.Keys{Path: keys}, Domain: "sandboxes.test", Faces: []gateway.Face{tokens{}, &Face{}},
		Base: launcher.Spec{Env: []string{"HOME=" + f.TempDir()}}, // not of this process: a fuzzer's workers build the agent
	})
	f.Cleanup(func() { _ = p.gateway.Close() })
	p.must(f, "a", "POST", "/api/v1/sandboxes", `{"id":"job"}`)
	p.must(f, "a", "PUT", "/api/v1/sandboxes/job/files?path=f/x&parents=true", "x")
	p.token = p.must(f, "a", "GET", "/token/job", "")
	const rest = "/api/v1/sandboxes/theirs"
	p.must(f, p.mark, "POST", "/api/v1/sandboxes", `{"id":"theirs","labels":{"mark":"`+p.mark+`"}}`)
	p.must(f, p.mark, "PUT", rest+"/files?path=f/"+p.mark+"&parents=true", p.mark)
	p.must(f, p.mark, "POST", rest+"/exec", `{"args":["echo","`+p.mark+`"]}`)
	if p.ready(); p.pid == "" {
		f.Fatal("no command waits for input")
	}
	return p
}

// ready has the sandbox and its command be there.
func (p *probe) ready() {
	p.call(p.rest("a", "POST", "/api/v1/sandboxes", `{"id":"job"}`))
	if p.pid = p.waiting(); p.pid == "" {
		p.call(p.rest("a", "POST", "/api/v1/sandboxes/job/exec", `{"args":["cat"],"detach":true,"open_stdin":true}`))
		p.pid = p.waiting()
	}
}

// waiting returns the pid of the command that waits for input; "" if there is none.
func (p *probe) waiting() string {
	var list listProcessesResponse
	_ = json.Unmarshal(p.call(p.envd("/process.Process/List", unaryType, `{}`)).Body.Bytes(), &list)
	for _, process := range list.Processes {
		if process.Config.Cmd == "cat" {
			return fmt.Sprint(process.PID)
		}
	}
	return ""
}

func (p *probe) rest(token, method, target, body string) *http.Request {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	return r
}

// envd returns a request to the sandbox's envd.
func (p *probe) envd(target, kind, body string) *http.Request {
	r := httptest.NewRequest("POST", "/", strings.NewReader(body))
	setTarget(r, target)
	r.Header = http.Header{headerSandbox: {probedID}, headerPort: {"49983"}, headerAccessToken: {p.token}, "Content-Type": {kind}}
	return r
}

// setTarget sets the URL of a request. One that is none stays as it is.
func setTarget(r *http.Request, target string) {
	if u, err := url.ParseRequestURI(target); err == nil && u.Host == "" {
		r.URL, r.RequestURI = u, target
	}
}

func (p *probe) must(f *testing.F, token, method, target, body string) string {
	f.Helper()
	got := p.call(p.rest(token, method, target, body))
	if got.Code >= 300 {
		f.Fatalf("%s %s: %d %s", method, target, got.Code, got.Body)
	}
	return got.Body.String()
}

// listener keeps an answer, and leaves when the first of it has come if it may be endless.
type listener struct {
	*httptest.ResponseRecorder
	leave context.CancelFunc
}

func (l listener) FlushError() error {
	l.leave()
	return nil
}

// call calls the gateway. It panics where a handler does, except to cut an answer off: then there is none.
func (p *probe) call(r *http.Request) (got *httptest.ResponseRecorder) {
	ctx, cancel := context.WithTimeout(context.Background(), hung)
	defer cancel()
	l := listener{httptest.NewRecorder(), func() {}}
	if strings.HasSuffix(r.URL.Path, "/Connect") || strings.HasSuffix(r.URL.Path, "/WatchDir") {
		l.leave = cancel
	}
	defer func() {
		if cut := recover(); cut == http.ErrAbortHandler {
			got = nil
		} else if cut != nil {
			panic(cut)
		}
	}()
	p.gateway.ServeHTTP(l, r.WithContext(ctx))
	return l.ResponseRecorder
}

// check checks what holds for any answer, and that a failure is told as E2B does.
func (p *probe) check(t *testing.T, r *http.Request, body string, got *httptest.ResponseRecorder) {
	t.Helper()
	if got == nil {
		return
	}
	fail := func(what string) {
		t.Helper()
		t.Errorf("%s %s %q %q: %d %v %q: %s", r.Method, r.RequestURI, r.Header, body, got.Code, got.Header(), got.Body, what)
	}
	text := got.Body.Bytes()
	if strings.Contains(fmt.Sprint(got.Header(), got.Body), p.mark) {
		fail("it has something of another tenant")
	}
	if got.Code == 500 || got.Code > 504 && got.Code != 507 {
		fail("the status should not be")
	}
	kind := got.Header().Get("Content-Type")
	switch {
	case isConnect(r) && r.Method == "POST" && kind == streamType:
		if fault := faultOf(text); !endsWell(text) || got.Code != 200 || !isFault(fault) {
			fail("the stream does not end as one does")
		}
	case got.Code < 400 || r.Method == "HEAD" || got.Code == 405 || got.Code == 404 && strings.HasPrefix(kind, "text/plain"): // the mux has no such method, or path
	case isConnect(r):
		var fault connectFault
		if err := json.Unmarshal(text, &fault); err != nil || fault.Code == "" || !isFault(&fault) || kind != unaryType {
			fail("it is no error of Connect's")
		}
	default:
		var fault apiError
		if err := json.Unmarshal(text, &fault); err != nil || fault.Code != got.Code || fault.Message == "" || kind != "application/json" {
			fail("it is no error of E2B's")
		}
	}
}

// faultOf returns the error that a stream ended with; nil if there is none.
func faultOf(stream []byte) *connectFault {
	last := stream[bytes.LastIndex(stream, []byte("\x02\x00"))+1:]
	var end struct{ Error *connectFault }
	if len(last) > envelopeHeader {
		_ = json.Unmarshal(last[envelopeHeader-1:], &end)
	}
	return end.Error
}

// isFault reports whether a call may fail so: not as if the fault were the gateway's own.
func isFault(why *connectFault) bool {
	return why == nil || why.Code != "internal" && why.Code != "unknown" && why.Code != "data_loss"
}

// harmless keeps paths in JSON below the directory f of the workdir, and runs nothing but programs that end by
// themselves. What is no JSON stays as it is: it is refused. PID stands for the process of a command.
func (p *probe) harmless(body []byte) string {
	body = bytes.ReplaceAll(body, []byte("PID"), []byte(p.pid))
	var value any
	if json.Unmarshal(body, &value) != nil {
		return string(body)
	}
	safe, _ := json.Marshal(harmlessValue("", value))
	return string(safe)
}

func harmlessValue(name string, value any) any {
	switch v := value.(type) {
	case map[string]any:
		if _, ok := v["cmd"].(string); ok {
			v["cmd"] = []string{"true", "echo", "/bin/bash"}[len(v)%3]
			if v["cmd"] == "/bin/bash" {
				v["args"] = []string{"-c", "true"}
			}
		}
		if envs, ok := v["envs"].(map[string]any); ok { // nothing that a shell or the linker obeys
			for key, inner := range envs {
				delete(envs, key)
				envs["X_"+key] = inner
			}
		}
		for key, inner := range v {
			v[key] = harmlessValue(key, inner)
		}
	case []any:
		for i, inner := range v {
			v[i] = harmlessValue(name, inner)
		}
	case float64:
		if name == "signal" && v > 2 && v <= 64 {
			return 15 // one that is stopped takes no input, for as long as its caller waits
		}
	case string:
		if slices.Contains([]string{"path", "source", "destination", "cwd"}, name) {
			return below(v)
		}
	}
	return value
}

func below(name string) string { return "f" + path.Clean("/"+name) }
