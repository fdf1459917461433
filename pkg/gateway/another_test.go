package gateway_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/gateway"
)

// operation is what the document says of an operation, as far as a call needs it.
type operation struct {
	ID         string `json:"operationId"`
	Parameters []struct {
		Name, In string
		Required bool
		Schema   schema
	}
	RequestBody struct {
		Required bool
		Content  map[string]struct{ Schema schema }
	}
}

type schema struct {
	Type       any    // a text, or some
	Ref        string `json:"$ref"`
	Example    any
	Format     string
	Pattern    string
	Enum       []any
	Minimum    *float64
	Items      *schema
	Required   []string
	Properties map[string]schema
}

// document is the document of the gateway.
type document struct {
	Paths      map[string]map[string]operation
	Components struct{ Schemas map[string]schema }
}

func readDocument(t *testing.T) (d document) {
	t.Helper()
	text, err := gateway.OpenAPI()
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// valueOf returns a value that a schema allows.
func (d document) valueOf(s schema) any {
	if s.Ref != "" {
		return d.valueOf(d.Components.Schemas[s.Ref[strings.LastIndex(s.Ref, "/")+1:]])
	}
	switch kind := fmt.Sprint(s.Type); {
	case s.Example != nil:
		return s.Example
	case s.Format == "date-time":
		return "2100-01-01T00:00:00Z"
	case s.Pattern == "^[0-9a-f]{64}$":
		return strings.Repeat("0", 64)
	case len(s.Enum) > 0:
		return s.Enum[0]
	case strings.Contains(kind, "array"):
		return []any{d.valueOf(*s.Items)}
	case strings.Contains(kind, "integer"), strings.Contains(kind, "number"):
		if s.Minimum != nil {
			return *s.Minimum
		}
		return 1
	case strings.Contains(kind, "boolean"):
		return true
	case strings.Contains(kind, "object"):
		object := map[string]any{}
		for _, name := range s.Required {
			object[name] = d.valueOf(s.Properties[name])
		}
		return object
	}
	return "x"
}

// call returns a step that calls an operation on a sandbox, as the document says.
func (d document) call(t *testing.T, method, path string, op operation, sandbox string) step {
	t.Helper()
	var query []string
	s := step{method: strings.ToUpper(method)}
	path = strings.Replace(path, "{id}", sandbox, 1)
	for _, p := range op.Parameters {
		switch value := fmt.Sprint(d.valueOf(p.Schema)); {
		case p.In == "path" && p.Name != "id":
			path = strings.Replace(path, "{"+p.Name+"}", value, 1)
		case p.In == "query" && p.Required:
			query = append(query, p.Name+"="+value)
		}
	}
	for kind, content := range op.RequestBody.Content {
		s.headers = []string{"Content-Type: " + kind}
		if strings.Contains(kind, "json") {
			body, err := json.Marshal(d.valueOf(content.Schema))
			if err != nil {
				t.Fatal(err)
			}
			s.body = string(body)
		}
	}
	s.path = path
	if len(query) > 0 {
		s.path += "?" + strings.Join(query, "&")
	}
	return s
}

// onASandbox returns a call of each operation on a sandbox, with what the operation is called.
func onASandbox(t *testing.T, sandbox string) map[string]step {
	t.Helper()
	d, calls := readDocument(t), map[string]step{}
	for path, operations := range d.Paths {
		for method, op := range operations {
			if strings.Contains(path, "{id}") {
				calls[op.ID] = d.call(t, method, path, op, sandbox)
			}
		}
	}
	if len(calls) < 20 {
		t.Fatalf("the document has but the operations %q", slices.Sorted(maps.Keys(calls)))
	}
	return calls
}

// Nothing tells another tenant's sandbox from one that there never was.
func TestAnotherTenantsSandboxIsNotFound(t *testing.T) {
	d := newDoor(t)
	d.send("a", "POST", "/api/v1/sandboxes", `{"id":"job-1"}`)
	others, none, ids := onASandbox(t, "job-1"), onASandbox(t, "job-2"), onASandbox(t, "acme.job-1")
	routed := map[string]string{
		"header": "X-Sandbox-ID: %s", "host": "Host: 8888-%s.sandboxes.test",
	}
	for name, header := range routed {
		others[name] = step{method: "GET", path: "/", headers: []string{fmt.Sprintf(header, "job-1")}}
		none[name] = step{method: "GET", path: "/", headers: []string{fmt.Sprintf(header, "job-2")}}
	}
	for name, s := range others {
		got := d.send("o", s.method, s.path, s.body, s.headers...)
		never := none[name]
		want := d.send("o", never.method, never.path, never.body, never.headers...)
		told := strings.ReplaceAll(got.text, "job-1", "job-2")
		if isPauser := got.StatusCode == 501; got.StatusCode != 404 && !isPauser || got.StatusCode != want.StatusCode || told != want.text {
			t.Errorf("%s %+v: %d %s\nof one that never was: %d %s", name, s, got.StatusCode, got.text, want.StatusCode, want.text)
		}
		if got := d.send("x", s.method, s.path, s.body, s.headers...); got.StatusCode != 401 {
			t.Errorf("%s by a stranger: %d %s", name, got.StatusCode, got.text)
		}
	}
	for name, s := range ids {
		if got := d.send("o", s.method, s.path, s.body, s.headers...); got.StatusCode != 422 && got.StatusCode != 501 {
			t.Errorf("%s by its id: %d %s", name, got.StatusCode, got.text)
		}
	}
	if got := d.send("o", "GET", "/", "", "X-Sandbox-ID: acme.job-1"); got.StatusCode != 400 {
		t.Errorf("routed by its id: %d %s", got.StatusCode, got.text)
	}
	if list := d.send("o", "GET", "/api/v1/sandboxes", ""); strings.Contains(list.text, "job-1") {
		t.Errorf("the list has another's: %s", list.text)
	}
	if own := d.send("o", "POST", "/api/v1/sandboxes", `{"id":"job-1"}`); own.StatusCode != 201 {
		t.Errorf("a sandbox of the same name: %d %s", own.StatusCode, own.text)
	}
	if got := d.send("a", "GET", "/api/v1/sandboxes/job-1", ""); got.StatusCode != 200 {
		t.Errorf("the sandbox after all this: %d %s", got.StatusCode, got.text)
	}
}

// The id by which the launcher knows a sandbox is nobody's business, and has the tenant's name.
func TestErrorsNameSandboxesAsTheCallerDoes(t *testing.T) {
	d := newDoor(t)
	d.send("a", "POST", "/api/v1/sandboxes", `{"id":"job-1"}`)
	calls := onASandbox(t, "none")
	for name, s := range onASandbox(t, "job-1") { // with values that are mostly refused
		calls[name+" of one that is there"] = s
	}
	delete(calls, "watch of one that is there") // its answer has no end
	for name, s := range map[string]step{
		"routed":            {method: "GET", path: "/", headers: []string{"X-Sandbox-ID: none"}},
		"routed to nothing": {method: "GET", path: "/", headers: []string{"X-Sandbox-ID: job-1", "X-Sandbox-Port: 1"}},
		"create":            {method: "POST", path: "/api/v1/sandboxes", body: `{"id":"job-2","env":["=x"]}`},
		"create in a pool":  {method: "POST", path: "/api/v1/sandboxes", body: `{"id":"job-2","pool":"x"}`},
	} {
		calls[name] = s
	}
	named := 0
	for name, s := range calls {
		if strings.HasPrefix(name, "delete-sandbox of") {
			continue
		}
		got := d.send("a", s.method, s.path, s.body, s.headers...)
		if got.StatusCode >= 400 && strings.Contains(got.text, "acme") {
			t.Errorf("%s: %d %s", name, got.StatusCode, got.text)
		}
		if strings.Contains(got.text, `sandbox \"none\"`) {
			named++
		}
	}
	if named < 10 {
		t.Errorf("%d errors name the sandbox", named)
	}
}

// What the launcher says then has the names of directories, and these have those of sandboxes.
func TestListThatFailsNamesNobodysSandbox(t *testing.T) {
	d := newDoor(t)
	d.send("o", "POST", "/api/v1/sandboxes", `{"id":"job-9"}`)
	records, err := filepath.Glob(filepath.Join(d.state, "*", "sandbox.json"))
	if err != nil || len(records) != 1 {
		t.Fatalf("the records are %q: %v", records, err)
	}
	whole, err := os.ReadFile(records[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(records[0], []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"", "/none"} {
		got := d.send("a", "GET", "/api/v1/sandboxes"+path, "")
		if got.StatusCode != 503 && path == "" || strings.Contains(got.text, "job-9") || strings.Contains(got.text, "other") {
			t.Errorf("%q: %d %s", path, got.StatusCode, got.text)
		}
	}
	if err := os.WriteFile(records[0], whole, 0o600); err != nil {
		t.Fatal(err)
	}
}
