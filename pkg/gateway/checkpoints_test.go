package gateway_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/gateway"
)

// made makes a checkpoint, and returns its id.
func (d *door) made(body string) string {
	d.Helper()
	var c gateway.Checkpoint
	got := d.send("a", http.MethodPost, "/api/v1/sandboxes/job-1/checkpoints", body)
	if err := json.Unmarshal([]byte(got.text), &c); err != nil || got.StatusCode != http.StatusOK {
		d.Fatalf("making a checkpoint: %d %s", got.StatusCode, got.text)
	}
	return c.ID
}

func (d *door) has(path, text string) step {
	return step{method: http.MethodGet, path: "~/files?path=" + path, status: 200, want: "^" + text + "$"}
}

func (d *door) lacks(path string) step {
	return step{method: http.MethodGet, path: "~/files?path=" + path, status: 404}
}

func TestCheckpointsOverHTTP(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.walk(
		step{method: http.MethodPost, path: "/api/v1/sandboxes", body: `{"id": "job-1"}`, status: 201},
		step{method: http.MethodGet, path: "~/checkpoints", status: 200, want: `"checkpoints":\[\]`},
		step{method: http.MethodPost, path: "~/exec", body: `{"script": "echo 1 > a; mkdir d; echo 1 > d/b; echo 1 > log; echo 1 > $(printf 'x\\377')"}`, status: 200},
	)
	first := d.made(`{"name": "tests pass", "exclude": ["log"]}`)
	d.walk(
		step{method: http.MethodGet, path: "~/checkpoints/" + first + "/diff", status: 200, want: `^\{"type":"end"\}\n$`},
		step{method: http.MethodPost, path: "~/exec", body: `{"script": "echo 2 > a; rm d/b; echo 2 > log; echo 2 > new; rm x*; echo 2 > $(printf 'y\\377')"}`, status: 200},
		step{method: http.MethodGet, path: "~/checkpoints/" + first + "/diff", status: 200, want: `(?s)\{"type":"difference","path":"a","how":"modified"\}\n.*"path":"d/b","how":"removed".*"path_base64":"eP8=".*\{"type":"end"\}\n$`},
		step{method: http.MethodGet, path: "~/checkpoints/" + first + "/diff?text=true", status: 200, want: `"diff":"--- a/a\\n\+\+\+ b/a\\n@@ -1 \+1 @@\\n-1\\n\+2\\n"`},
	)
	second := d.made(`{"automatic": true, "name": "call 7"}`)
	d.walk(
		step{method: http.MethodGet, path: "~/checkpoints/" + first + "/diff?to=" + second, status: 200, want: `"path":"new","how":"added"`},
		step{method: http.MethodGet, path: "~/checkpoints", status: 200, want: `"id":"` + first + `","name":"tests pass","time":.*"id":"` + second + `","name":"call 7","automatic":true,`},
		step{method: http.MethodPost, path: "~/checkpoints/" + first + "/restore", body: `{"paths": ["d"]}`, status: 200, want: `"kept":\[\]`},
		d.has("d/b", "1\n"), d.has("a", "2\n"),
		step{method: http.MethodPost, path: "~/checkpoints/" + first + "/restore", body: `{}`, status: 200, want: `"before":\{"id":"[0-9a-f]{64}",.*"changed":\d+,"kept":\[\]`},
		d.has("a", "1\n"), d.lacks("new"), d.has("log", "2\n"), d.has("x%FF", "1\n"), d.lacks("y%FF"),
		step{method: http.MethodDelete, path: "~/checkpoints/" + second, status: 204},
		step{method: http.MethodDelete, path: "~/checkpoints/" + second, status: 404, want: `"class":"not_exist"`},
	)
}

func TestCheckpointsRefuseWhatCannotBe(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.walk(step{method: http.MethodPost, path: "/api/v1/sandboxes", body: `{"id": "job-1"}`, status: 201}, step{method: http.MethodPut, path: "~/files?path=a", body: "1", status: 201})
	id, none := d.made(`{}`), strings.Repeat("0", 64)
	const invalid = `"class":"invalid"`
	d.walk(
		step{method: http.MethodPost, path: "~/checkpoints", body: `{"name": "` + strings.Repeat("x", 201) + `"}`, status: 422, want: invalid},
		step{method: http.MethodPost, path: "~/checkpoints", body: `{"name": "` + strings.Repeat("ö", 150) + `"}`, status: 413, want: `"class":"too_large"`},
		step{method: http.MethodPost, path: "~/checkpoints", body: `{"exclude": ["["]}`, status: 422, want: invalid},
		step{method: http.MethodGet, path: "~/checkpoints/" + none + "/diff", status: 404, want: `"class":"not_exist"`},
		step{method: http.MethodGet, path: "~/checkpoints/" + id[:63] + "/diff", status: 422, want: invalid},
		step{method: http.MethodGet, path: "~/checkpoints/" + id + "/diff?to=", status: 422, want: invalid},
		step{method: http.MethodGet, path: "~/checkpoints/" + id + "/diff?to=" + none, status: 404, want: `"class":"not_exist"`},
		step{method: http.MethodGet, path: "~/checkpoints/" + id + "/diff?text=maybe", status: 422, want: invalid},
		step{method: http.MethodDelete, path: "~/checkpoints/x", status: 422, want: invalid},
		step{method: http.MethodPost, path: "~/checkpoints/" + none + "/restore", body: `{}`, status: 404, want: `"class":"not_exist"`},
		step{method: http.MethodPost, path: "~/checkpoints/" + strings.ToUpper(id) + "x/restore", body: `{}`, status: 422, want: invalid},
		step{method: http.MethodPost, path: "~/checkpoints/" + id + "/restore", body: `{"paths": ["../x"]}`, status: 422, want: invalid},
		step{method: http.MethodPost, path: "~/checkpoints/" + id + "/restore", body: `{"paths": ["typo"]}`, status: 404, want: `"class":"not_exist"`},
	)
	// What is not as in the checkpoint is an answer, and what was damaged an error.
	other := d.send("o", http.MethodGet, "/api/v1/sandboxes/job-1/checkpoints", "")
	if other.StatusCode != http.StatusNotFound || !strings.Contains(other.text, "no_sandbox") {
		t.Errorf("another tenant: %d %s", other.StatusCode, other.text)
	}
	manifests, err := filepath.Glob(filepath.Join(d.state, "*", "checkpoints", "manifests", id))
	if err != nil || len(manifests) != 1 {
		t.Fatal(manifests, err)
	}
	if err := os.WriteFile(manifests[0], []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.walk(step{method: http.MethodPost, path: "~/checkpoints/" + id + "/restore", body: `{}`, status: 422, want: `"class":"checksum"`})
}

func TestCallsAboutCheckpointsAreAudited(t *testing.T) {
	t.Parallel()
	w := &witness{}
	d := newDoor(t, func(o *gateway.Options) { o.Observers = []gateway.Observer{w} })
	d.walk(
		step{method: http.MethodPost, path: "/api/v1/sandboxes", body: `{"id": "job-1"}`, status: 201},
		step{method: http.MethodPut, path: "~/files?path=a", body: "1", status: 201},
	)
	id := d.made(`{"name": "n"}`)
	d.walk(
		step{method: http.MethodGet, path: "~/checkpoints/" + id + "/diff?to=" + id, status: 200},
		step{method: http.MethodPost, path: "~/checkpoints/" + id + "/restore", body: `{"paths": ["a"]}`, status: 200},
		step{method: http.MethodGet, path: "~/checkpoints/" + id + "/export", status: 200},
		step{method: http.MethodPost, path: "~/checkpoints/import", body: "x", status: 422},
		step{method: http.MethodDelete, path: "~/checkpoints/" + id, status: 204},
	)
	w.mu.Lock()
	defer w.mu.Unlock()
	told := map[string]gateway.Act{}
	for _, act := range w.begun {
		told[act.Operation] = act
	}
	for operation, want := range map[string]gateway.Detail{
		"create-checkpoint":  {Args: []string{"n"}},
		"diff-checkpoint":    {Args: []string{id, id}},
		"restore-checkpoint": {Args: []string{id}, Paths: []string{"a"}},
		"delete-checkpoint":  {Args: []string{id}},
		"export-checkpoint":  {Args: []string{id}},
		"import-checkpoint":  {},
	} {
		if got := told[operation]; !slices.Equal(got.Args, want.Args) || !slices.Equal(got.Paths, want.Paths) || got.Sandbox != "job-1" {
			t.Errorf("of %s it has %+v", operation, got)
		}
	}
}
