package gateway_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher"
)

// from is the body of a create whose files come from job-1.
func from(id, checkpoint string) string {
	return fmt.Sprintf(`{"id": %q, "from": {"sandbox": "job-1", "checkpoint": %q}}`, id, checkpoint)
}

// make makes a sandbox, and fails if its answer is another one.
func (d *door) make(status int, body string, headers ...string) {
	d.Helper()
	d.walk(step{method: http.MethodPost, path: sandboxes, body: body, headers: headers, status: status})
}

// mustHave compares a file's text; "" is of a file that is not there.
func (d *door) mustHave(id, path, want string) {
	d.Helper()
	got := d.send("a", http.MethodGet, sandboxes+"/"+id+"/files?path="+path, "")
	if found := got.StatusCode == http.StatusOK; found != (want != "") || found && got.text != want {
		d.Errorf("%s of %s: %d %q, want %q", path, id, got.StatusCode, got.text, want)
	}
}

// script runs a script in a sandbox, and returns its output.
func (d *door) script(id, text string) string {
	d.Helper()
	body, err := json.Marshal(map[string]string{"script": text})
	if err != nil {
		d.Fatal(err)
	}
	got := d.send("a", http.MethodPost, sandboxes+"/"+id+"/exec", string(body))
	var ended struct {
		Stdout string `json:"stdout"`
		Code   int    `json:"exit_code"`
	}
	if err := json.Unmarshal([]byte(got.text), &ended); err != nil || got.StatusCode != http.StatusOK || ended.Code != 0 {
		d.Errorf("%q in %s: %d %s", text, id, got.StatusCode, got.text)
	}
	return ended.Stdout
}

func TestCreateFromACheckpoint(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.make(201, `{"id": "job-1", "env": ["COLOR=blue"]}`)
	d.script("job-1", "mkdir d; echo 1 > d/a; ln -s d/a link; chmod 750 d")
	id := d.made(`{"name": "tests pass"}`)
	d.script("job-1", "echo 2 > d/a; echo 2 > later")

	d.make(201, from("then", id))
	d.mustHave("then", "d/a", "1\n")
	d.mustHave("then", "later", "")
	if got := d.script("then", "stat -c %a d; readlink link; echo $COLOR"); got != "750\nd/a\nblue\n" {
		t.Errorf("it is %q", got)
	}
	d.make(201, `{"id": "now", "env": ["SHAPE=round"], "from": {"sandbox": "job-1"}}`)
	d.mustHave("now", "d/a", "2\n")
	if got := d.script("now", "echo $COLOR $SHAPE"); got != "round\n" {
		t.Errorf("with an environment of its own it has %q", got)
	}
	d.walk(
		step{method: http.MethodGet, path: "~/checkpoints", status: 200, want: `"name":"tests pass".*"automatic":true`},
		step{method: http.MethodGet, path: sandboxes + "/then/checkpoints", status: 200, want: `"id":"` + id + `"`},
	)
}

func TestCreateFromACheckpointLeavesWhatIsThere(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.make(201, `{"id": "job-1"}`)
	d.script("job-1", "echo 1 > a")
	id := d.made(`{}`)
	d.make(201, `{"id": "there"}`)
	d.walk(
		step{method: http.MethodPost, path: sandboxes, body: from("there", id), status: 409, want: `"class":"exist"`},
		step{method: http.MethodPost, path: sandboxes, body: from("there", id), headers: []string{"Idempotency-Key: k"}, status: 409, want: `"class":"exist"`},
		step{method: http.MethodPost, path: sandboxes, body: from("job-1", id), status: 409, want: `"class":"exist"`},
	)
	d.mustHave("there", "a", "")

	// A repetition finds the sandbox.
	key := "Idempotency-Key: other"
	d.make(201, from("job-2", id), key)
	d.script("job-2", "echo own > b")
	d.make(200, from("job-2", id), key)
	d.mustHave("job-2", "b", "own\n")
	d.script("job-2", "rm *")
	d.make(200, from("job-2", id), key)
	d.mustHave("job-2", "a", "")
	d.walk(step{method: http.MethodPost, path: sandboxes, body: `{"id": "job-2", "from": {"sandbox": "job-1"}}`, headers: []string{key}, status: 409, want: `"class":"conflict"`})

	// Without a checkpoint, too, the first request decides what is in it.
	now, again := `{"id": "job-3", "from": {"sandbox": "job-1"}}`, "Idempotency-Key: third"
	d.make(201, now, again)
	d.script("job-1", "echo 2 > a")
	d.make(200, now, again)
	d.mustHave("job-3", "a", "1\n")
}

func TestRepeatedCreatesFromACheckpointAtOnce(t *testing.T) {
	t.Parallel()
	doors, _ := quotaDoors(t, 2, "", "")
	d := doors[0]
	d.make(201, `{"id": "job-1"}`)
	d.script("job-1", "for i in $(seq 200); do echo $i > f$i; done")
	id := d.made(`{}`)
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			got := doors[i%2].send("a", http.MethodPost, sandboxes, from("job-2", id), "Idempotency-Key: k")
			if got.StatusCode != http.StatusOK && got.StatusCode != http.StatusCreated {
				t.Errorf("create: %d %s", got.StatusCode, got.text)
			}
			doors[i%2].mustHave("job-2", "f200", "200\n")
		})
	}
	all.Wait()
}

// watched is a launcher that tells when it has made a sandbox.
type watched struct {
	*launcher.Local
	made func()
}

func (w watched) Launch(ctx context.Context, spec launcher.Spec) (*launcher.Sandbox, error) {
	s, err := w.Local.Launch(ctx, spec)
	if err == nil && s.Created {
		w.made()
	}
	return s, err
}

// watchedDoor is a door whose launcher calls what it finds there when it has made a sandbox.
func watchedDoor(t *testing.T, made <-chan func()) *door {
	return newDoor(t, func(o *gateway.Options) {
		o.Launcher = watched{o.Launcher.(*launcher.Local), func() {
			select {
			case do := <-made:
				do()
			default:
			}
		}}
	})
}

// A create that fails removes what it has made, and nothing that another request has made or filled meanwhile.
func TestCreateFromACheckpointThatFailsLeavesWhatIsAnothers(t *testing.T) {
	const unnamed = `{"id": "job-2", "from": {"sandbox": "job-1"}}`
	for name, c := range map[string]struct {
		key, body string
		meanwhile func(d *door, body, id string)
	}{
		"made anew": {"", "", func(d *door, _, _ string) {
			d.walk(step{method: http.MethodDelete, path: sandboxes + "/job-2", status: 204})
			d.make(201, `{"id": "job-2"}`)
		}},
		"made anew, with a key": {"k", "", func(d *door, _, _ string) {
			d.walk(step{method: http.MethodDelete, path: sandboxes + "/job-2", status: 204})
			d.make(201, `{"id": "job-2"}`)
		}},
		"filled by a repetition, then the checkpoint goes": {"k", "", func(d *door, body, id string) {
			d.make(200, body, "Idempotency-Key: k")
			d.walk(step{method: http.MethodDelete, path: "~/checkpoints/" + id, status: 204})
		}},
		"filled by a repetition, from a checkpoint of its own": {"k", unnamed, func(d *door, body, _ string) {
			d.make(200, body, "Idempotency-Key: k")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			made := make(chan func(), 1)
			d := watchedDoor(t, made)
			d.make(201, `{"id": "job-1"}`)
			d.script("job-1", "echo 1 > a")
			id := d.made(`{}`)
			body := cmp.Or(c.body, from("job-2", id))
			made <- func() {
				c.meanwhile(d, body, id)
				d.script("job-2", "echo precious > work")
			}
			d.send("a", http.MethodPost, sandboxes, body, "Idempotency-Key: "+c.key)
			d.mustHave("job-2", "work", "precious\n")
		})
	}
}

func TestCreateFromACheckpointWhoseCallerLeavesCanBeRepeated(t *testing.T) {
	t.Parallel()
	left := make(chan func(), 1) // ends the request that is under way
	d := watchedDoor(t, left)
	d.make(201, `{"id": "job-1"}`)
	d.script("job-1", "echo 1 > a")
	id := d.made(`{}`)
	create := func(body, key string) int {
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		left <- leave
		req := httptest.NewRequestWithContext(ctx, http.MethodPost, sandboxes, strings.NewReader(body))
		req.Header.Set("Authorization", "Bearer a")
		req.Header.Set("Content-Type", "application/json")
		if key != "" {
			req.Header.Set("Idempotency-Key", key)
		}
		w := httptest.NewRecorder()
		d.gateway.ServeHTTP(w, req)
		return w.Code
	}

	if status := create(from("job-2", id), "k"); status < 300 {
		t.Errorf("a caller that left: %d", status)
	}
	d.make(200, from("job-2", id), "Idempotency-Key: k")
	d.mustHave("job-2", "a", "1\n")

	// Without a key nobody can complete it.
	if status := create(from("job-3", id), ""); status < 300 {
		t.Errorf("a caller that left: %d", status)
	}
	d.walk(step{method: http.MethodGet, path: sandboxes + "/job-3", status: 404})
}

func TestCreateFromNothing(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.make(201, `{"id": "job-1"}`)
	id, none := d.made(`{}`), strings.Repeat("0", 64)
	for _, c := range []struct {
		body   string
		status int
		class  string
	}{
		{from("job-2", none), 404, "not_exist"},
		{from("job-2", id[:63]), 422, "invalid"},
		{from("job-2", strings.ToUpper(id)), 422, "invalid"},
		{`{"id": "job-2", "from": {}}`, 422, "invalid"},
		{`{"id": "job-2", "from": {"sandbox": "none"}}`, 404, "no_sandbox"},
		{`{"id": "job-2", "from": {"sandbox": "Other.job-1"}}`, 422, "invalid"},
		{`{"id": "job-2", "from": {"sandbox": "job-1"}, "git": {"url": "/x"}}`, 422, "invalid"},
		{`{"id": "job-2", "from": {"sandbox": "job-1"}, "image": "none"}`, 403, "not_allowed"},
	} {
		d.walk(step{method: http.MethodPost, path: sandboxes, body: c.body, status: c.status, want: `"class":"` + c.class + `"`})
	}
	other := d.send("o", http.MethodPost, sandboxes, from("job-2", id))
	if other.StatusCode != http.StatusNotFound || !strings.Contains(other.text, `"no_sandbox"`) {
		t.Errorf("another tenant: %d %s", other.StatusCode, other.text)
	}
	d.walk(
		step{method: http.MethodGet, path: "~/checkpoints", status: 200, want: `^\{[^{]*\{[^{]*$`}, // none was made for what is refused
		step{method: http.MethodGet, path: sandboxes + "/job-2", status: 404, want: "no_sandbox"},
	)
}

func TestSandboxThatDoesNotGetItsFilesIsRemoved(t *testing.T) {
	t.Parallel()
	doors, files := quotaDoors(t, 1, "quota: {sandboxes: 2}", "budget: {sandbox_hours_per_day: 72}")
	d := doors[0]
	d.make(201, `{"id": "job-1"}`)
	d.script("job-1", "head -c 2000000 /dev/urandom > large")
	id := d.made(`{}`)
	damageLarge(t, filepath.Dir(files.Dir))
	d.walk(step{method: http.MethodPost, path: sandboxes, body: from("job-2", id), status: 422, want: `"class":"checksum"`})
	d.walk(step{method: http.MethodGet, path: sandboxes + "/job-2", status: 404, want: "no_sandbox"})
	if book := bookOf(t, files); !strings.Contains(book, "job-1") || strings.Contains(book, "job-2") {
		t.Errorf("the book says %s", book)
	}
	d.make(201, `{"id": "job-3"}`)
	d.walk(step{method: http.MethodPost, path: sandboxes, body: from("job-4", id), status: 429, want: "quota_exceeded"})
}

// damageLarge changes the content that checkpoints have of a large file.
func damageLarge(t *testing.T, state string) {
	t.Helper()
	damaged := 0
	err := filepath.WalkDir(state, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || !strings.Contains(path, "/checkpoints/") {
			return err
		}
		info, err := e.Info()
		if err != nil || info.Size() < 1_000_000 {
			return err
		}
		damaged++
		return os.WriteFile(path, make([]byte, info.Size()), 0o600)
	})
	if err != nil || damaged != 1 {
		t.Fatal(damaged, "files are damaged:", err)
	}
}

func TestCreateFromACheckpointIsAudited(t *testing.T) {
	t.Parallel()
	w := &witness{}
	d := newDoor(t, func(o *gateway.Options) { o.Observers = []gateway.Observer{w} })
	d.make(201, `{"id": "job-1"}`)
	id := d.made(`{}`)
	d.make(201, from("job-2", id))
	w.mu.Lock()
	defer w.mu.Unlock()
	found := false
	for _, act := range w.begun {
		found = found || act.Operation == "create-sandbox" && act.Sandbox == "job-2" && strings.Join(act.Args, " ") == "job-1 "+id
	}
	if !found {
		t.Errorf("it is not in %+v", w.begun)
	}
}
