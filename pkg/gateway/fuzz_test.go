package gateway_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// FuzzOperations calls each operation of the document with input that is nearly right, beside
// another tenant's sandbox. A local sandbox isolates nothing, so the input is kept harmless: see
// harmless.
func FuzzOperations(f *testing.F) {
	p := newProbe(f)
	for i, op := range p.operations {
		body, _ := json.Marshal(p.sample(op.body()))
		f.Add(uint8(i), "job-1", "x", op.query(), uint8(0), "", body)
		f.Add(uint8(i), "job-1", "\x80", op.query(), uint8(1), `"x"`, []byte(`{"path":"\ud800","path":"a"}`))
		f.Add(uint8(i), "Job%2f1", "%00", "path=%ff&limit=-1&follow=yes", uint8(2), "bytes=0-,-1", []byte("{\"\xff\":[[[["))
		f.Add(uint8(i), "job-1", p.ran, op.query()+"&recursive=true&stdout_offset=1", uint8(3), "application/jsonl", []byte(`{"args":["cat"],"stdin":"eA==","timeout_seconds":1e9}`))
		f.Add(uint8(i), "job-1", p.ran, op.query()+"&args=a&args=b&env=A%3Db&dir=..&script=x&cols=0", uint8(0), "", []byte(`{"args":["echo","x"],"detach":true,"terminal":{"cols":80,"rows":24}}`))
		f.Add(uint8(i), "job-1", p.ran, op.query()+"&offset=1&end=true", uint8(0), "", []byte(`{"script":"x","detach":true,"open_stdin":true,"stdin":"eA=="}`))
		f.Add(uint8(i), "other.job-1", "..", op.query(), uint8(4), uuid.Must(uuid.NewV7()).String(), []byte(`null`))
	}
	f.Fuzz(func(t *testing.T, number uint8, id, execID, query string, header uint8, value string, body []byte) {
		op := p.operations[int(number)%len(p.operations)]
		target := strings.NewReplacer("{id}", url.PathEscape(id), "{exec_id}", url.PathEscape(execID), "{port}", "80").Replace(op.path)
		r := p.request(op.method, target+"?"+harmlessQuery(query), harmless(body))
		r.Header.Set(fuzzedHeaders[int(header)%len(fuzzedHeaders)], value)
		got := p.call(r)
		p.check(t, op, r, got)
		p.restore(op, got)
	})
}

// fuzzedHeaders are those that operations read.
var fuzzedHeaders = []string{"X-None", "If-Match", "Range", "Accept", "Idempotency-Key", "Content-Type", "If-None-Match", "Authorization"}

// hungCall is more than any call takes.
const hungCall = time.Minute

// probe calls a gateway whose other tenant has a sandbox with a mark in its name, files and output.
type probe struct {
	gateway    *gateway.Gateway
	mark       string
	ran        string // the exec id of a command of job-1
	schemas    map[string]documentedSchema
	operations []documentedOp
}

type documentedOp struct {
	method, path string
	ID           string                     `json:"operationId"`
	Parameters   []parameter                `json:"parameters"`
	Body         described                  `json:"requestBody"`
	Responses    map[string]json.RawMessage `json:"responses"`
}

type parameter struct {
	Name, In string
	Required bool
}

type described struct {
	Content map[string]struct{ Schema documentedSchema }
}

type documentedSchema struct {
	Ref        string `json:"$ref"`
	Type       any
	Items      *documentedSchema
	Enum       []any
	Properties map[string]documentedSchema
}

func newProbe(f *testing.F) *probe {
	p := &probe{mark: "m" + strings.ToLower(rand.Text())}
	keys := filepath.Join(f.TempDir(), "keys.yaml")
	text := fmt.Sprintf("tenants:\n  acme:\n    keys:\n    - sha256: %s\n  other:\n    keys:\n    - sha256: %s\n", hashOf("a"), hashOf(p.mark))
	if err := os.WriteFile(keys, []byte(text), 0o600); err != nil {
		f.Fatal(err)
	}
	p.gateway = gateway.New(gateway.Options{Launcher: launchertest.Local(f), Tenants: &gateway.Keys{Path: keys}})
	f.Cleanup(func() { _ = p.gateway.Close() })
	p.read(f)
	p.must(f, "a", "POST", "/api/v1/sandboxes", `{"id":"job-1"}`)
	p.must(f, "a", "PUT", "/api/v1/sandboxes/job-1/files?path=f/x&parents=true", "x")
	var ran struct {
		ID string `json:"exec_id"`
	}
	if err := json.Unmarshal(p.must(f, "a", "POST", "/api/v1/sandboxes/job-1/exec", `{"args":["echo","hello"]}`), &ran); err != nil {
		f.Fatal(err)
	}
	p.ran = ran.ID
	other := "/api/v1/sandboxes/" + p.mark
	p.must(f, p.mark, "POST", "/api/v1/sandboxes", `{"id":"`+p.mark+`"}`)
	p.must(f, p.mark, "PUT", other+"/files?path="+p.mark, p.mark)
	p.must(f, p.mark, "POST", other+"/exec", `{"args":["echo","`+p.mark+`"]}`)
	return p
}

// read reads the operations of the document.
func (p *probe) read(f *testing.F) {
	text, err := gateway.OpenAPI()
	if err != nil {
		f.Fatal(err)
	}
	var doc struct {
		Paths      map[string]map[string]documentedOp
		Components struct{ Schemas map[string]documentedSchema }
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		f.Fatal(err)
	}
	p.schemas = doc.Components.Schemas
	for path, methods := range doc.Paths {
		for method, op := range methods {
			op.method, op.path = strings.ToUpper(method), path
			p.operations = append(p.operations, op)
		}
	}
	slices.SortFunc(p.operations, func(a, b documentedOp) int { return cmp.Compare(a.ID, b.ID) })
}

func (op documentedOp) body() documentedSchema { return op.Body.Content["application/json"].Schema }

// query returns a query that the operation takes.
func (op documentedOp) query() string {
	query := url.Values{}
	for _, p := range op.Parameters {
		if p.In == "query" && p.Required {
			query.Set(p.Name, "x")
		}
	}
	return query.Encode()
}

// sample returns a value that a schema may allow.
func (p *probe) sample(s documentedSchema) any {
	if s.Ref != "" {
		s = p.schemas[path.Base(s.Ref)]
	}
	kind := s.Type
	if kinds, ok := kind.([]any); ok {
		kind = kinds[0]
	}
	switch {
	case len(s.Enum) > 0:
		return s.Enum[0]
	case kind == "object":
		value := map[string]any{}
		for name, property := range s.Properties {
			value[name] = p.sample(property)
		}
		return value
	case kind == "array" && s.Items != nil:
		return []any{p.sample(*s.Items)}
	case kind == "integer", kind == "number":
		return 5
	case kind == "boolean":
		return true
	}
	return "x"
}

func (p *probe) request(method, target string, body []byte) *http.Request {
	u, err := url.ParseRequestURI(target)
	if err != nil {
		u = &url.URL{Path: "/"}
	}
	r := &http.Request{
		Method: method, URL: u, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Host: "gateway", RequestURI: target,
		Header: http.Header{"Authorization": {"Bearer a"}, "Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)),
	}
	return r
}

func (p *probe) must(f *testing.F, token, method, target, body string) []byte {
	f.Helper()
	r := p.request(method, target, []byte(body))
	r.Header.Set("Authorization", "Bearer "+token)
	got := p.call(r)
	if got.Code >= 300 {
		f.Fatalf("%s %s: %d %s", method, target, got.Code, got.Body)
	}
	return got.Body.Bytes()
}

// answerOf keeps an answer. The caller leaves at its first flush if it is an endless one.
type answerOf struct {
	*httptest.ResponseRecorder
	leave context.CancelFunc
}

func (a answerOf) FlushError() error {
	if a.Header().Get("Content-Type") == "text/event-stream" {
		a.leave()
	}
	return nil
}

// call calls the gateway. It panics where a handler does, except to cut an answer off.
func (p *probe) call(r *http.Request) *httptest.ResponseRecorder {
	ctx, cancel := context.WithTimeout(context.Background(), hungCall)
	defer cancel()
	a := answerOf{httptest.NewRecorder(), cancel}
	defer func() {
		if cut := recover(); cut != nil && cut != http.ErrAbortHandler {
			panic(cut)
		}
	}()
	p.gateway.ServeHTTP(a, r.WithContext(ctx))
	return a.ResponseRecorder
}

func (p *probe) check(t *testing.T, op documentedOp, r *http.Request, got *httptest.ResponseRecorder) {
	t.Helper()
	if got == nil {
		return // it was cut off
	}
	fail := func(what string) {
		t.Helper()
		t.Errorf("%s %s %q: %d %s: %s", r.Method, r.RequestURI, r.Header, got.Code, got.Body, what)
	}
	if whole := fmt.Sprint(got.Header(), got.Body.String()); strings.Contains(whole, p.mark) {
		fail("it has something of another tenant")
	}
	if got.Code >= 500 && (got.Code < 501 || got.Code > 504) {
		fail("the status should not be")
	}
	_, described := op.Responses[fmt.Sprint(got.Code)]
	elsewhere := got.Code == http.StatusMovedPermanently // the mux cleans the path
	if got.Code < 400 && !described && !elsewhere {
		fail("the status is not in the document")
	}
	var problem gateway.Problem
	if got.Code < 400 || op.method == http.MethodHead {
		return
	}
	if err := json.Unmarshal(got.Body.Bytes(), &problem); err != nil || problem.Status != got.Code || problem.Class == "" ||
		got.Header().Get("Content-Type") != "application/problem+json" {
		fail("it is no problem")
	}
}

// restore makes again what an operation ended, and ends what it made.
func (p *probe) restore(op documentedOp, got *httptest.ResponseRecorder) {
	switch {
	case got == nil || got.Code >= 300:
	case op.ID == "delete-sandbox":
		p.call(p.request("POST", "/api/v1/sandboxes", []byte(`{"id":"job-1"}`)))
	case op.ID == "create-sandbox":
		var made gateway.Sandbox
		if json.Unmarshal(got.Body.Bytes(), &made) == nil && made.ID != "job-1" {
			p.call(p.request("DELETE", "/api/v1/sandboxes/"+made.ID, nil))
		}
	}
}

// harmlessQuery is harmless for a query, and keeps links within the workdir. Nothing here opens a
// WebSocket, so open-terminal starts nothing; if that changes, what it starts is harmless, too,
// unless the query has no command: then it is a shell.
func harmlessQuery(query string) string {
	values, err := url.ParseQuery(query)
	if err != nil {
		return "%zz" // what cannot be read is refused
	}
	values.Del("outside_links")
	for name := range values {
		for i, value := range values[name] {
			switch name {
			case "path", "dir", "pattern":
				values[name][i] = below(value)
			case "script":
				values[name][i] = "true"
			case "args":
				values[name][i] = below(value)
			case "env":
				values[name][i] = "X_" + value
			}
		}
	}
	if args := values["args"]; len(args) > 0 {
		args[0] = harmlessPrograms[len(args)%len(harmlessPrograms)]
	}
	return values.Encode()
}

// harmless keeps paths in JSON below the directory f of the workdir, and runs nothing but a few
// programs, which end by themselves, also if they are detached, have a terminal or open input.
// Repositories are where nothing serves. What is no JSON stays as it is: it is refused.
func harmless(body []byte) []byte {
	var value any
	if json.Unmarshal(body, &value) != nil {
		return body
	}
	safe, _ := json.Marshal(harmlessValue("", value))
	return safe
}

func harmlessValue(name string, value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			v[key] = harmlessValue(strings.ToLower(key), inner)
		}
	case []any:
		for i, inner := range v {
			v[i] = harmlessValue(name, inner)
		}
		if name == "args" && len(v) > 0 {
			v[0] = harmlessPrograms[len(v)%len(harmlessPrograms)]
		}
	case string:
		switch name {
		case "path", "paths", "from", "to", "dir":
			return below(v)
		case "script":
			return "true"
		case "args":
			return below(v) // cat reads it, and never its input
		case "env":
			return "X_" + v // nothing that a shell or the linker obeys
		case "url":
			return "https://127.0.0.1:1" + path.Clean("/"+v)
		}
	}
	return value
}

var harmlessPrograms = []string{"true", "echo", "cat"}

func below(p string) string { return "f" + path.Clean("/"+p) }

// FuzzKeys reads files of keys: a token is valid only where its digest is in the file.
func FuzzKeys(f *testing.F) {
	f.Add("tenants:\n  acme:\n    keys:\n    - sha256: " + hashOf("a") + "\n      expires: 2100-01-01T00:00:00Z\n")
	f.Add("tenants:\n  acme:\n    quota: {sandboxes: 1}\n    keys:\n    - {name: ci, sha256: " + hashOf("b") + "}\n")
	f.Add("tenants: {a.b: {keys: []}}\n")
	f.Add("tenants: &x {a: *x}\n")
	f.Add("tenants: [\n")
	file := filepath.Join(f.TempDir(), "keys.yaml")
	f.Fuzz(func(t *testing.T, text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		keys := &gateway.Keys{Path: file}
		caller, err := keys.Caller(t.Context(), "a")
		if err == nil && (gateway.CheckTenant(caller.Tenant) != nil || !strings.Contains(strings.ToLower(text), hashOf("a"))) {
			t.Errorf("%q lets in %+v", text, caller)
		}
		if _, unknown := keys.Policy(t.Context(), caller.Tenant); err == nil && unknown != nil {
			t.Error(unknown)
		}
		if _, err := keys.Caller(t.Context(), rand.Text()); err == nil {
			t.Errorf("%q lets in anybody", text)
		}
	})
}

// FuzzNames checks that no two sandboxes have one id, and that each has a host name.
func FuzzNames(f *testing.F) {
	f.Add("acme", "job-1", "acme-job", "1")
	f.Add("a", "b--c", "a-", "b.c")
	f.Add(strings.Repeat("a", 19), strings.Repeat("b", 36), "a", "b")
	f.Add(strings.Repeat("a", 20), strings.Repeat("b", 37), "", "é")
	f.Fuzz(func(t *testing.T, tenant, name, tenant2, name2 string) {
		if gateway.CheckTenant(tenant) != nil || gateway.CheckName(name) != nil {
			return
		}
		id := gateway.LauncherID(tenant, name)
		if got, ours := gateway.NameOf(tenant, id); got != name || !ours {
			t.Errorf("%q of %q comes back as %q", name, tenant, got)
		}
		if wrong := validation.IsDNS1123Label("65535-" + name + "--" + tenant); wrong != nil {
			t.Errorf("%q of %q is no host name: %q", name, tenant, wrong)
		}
		if gateway.CheckTenant(tenant2) != nil || gateway.CheckName(name2) != nil {
			return
		}
		if id2 := gateway.LauncherID(tenant2, name2); id2 == id && (tenant != tenant2 || name != name2) {
			t.Errorf("%q of %q and %q of %q are both %q", name, tenant, name2, tenant2, id)
		}
		if got, ours := gateway.NameOf(tenant2, id); ours && tenant != tenant2 {
			t.Errorf("%q of %q is %q of %q", name, tenant, got, tenant2)
		}
	})
}
