package e2b_test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/podagent/podagent/test/contracts"
)

// snapshot is one as answers have it.
type snapshot struct {
	SnapshotID string
	Names      []string
}

// snapshot keeps the files of a sandbox.
func (d *door) snapshot(s sandbox, body string) (made snapshot) {
	d.Helper()
	d.call("POST", "/sandboxes/"+s.SandboxID+"/snapshots", body, http.StatusCreated, &made)
	return made
}

// snapshots returns the pages of a list of snapshots.
func (d *door) snapshots(query string) (pages [][]string) {
	d.Helper()
	for token := ""; ; {
		var page []snapshot
		got := d.call("GET", "/snapshots?"+query+"&nextToken="+token, "", http.StatusOK, &page)
		ids := []string{}
		for _, s := range page {
			ids = append(ids, s.SnapshotID)
		}
		pages = append(pages, ids)
		if token = got.Header.Get("X-Next-Token"); token == "" {
			return pages
		}
	}
}

func TestSandboxIsMadeFromASnapshot(t *testing.T) {
	contracts.Record(t, "e2b", "HTTP").Saw(contracts.Differs, "createSnapshot", "Sandbox.create of a snapshot", "deleteSnapshot")
	d := newDoor(t)
	first := d.create(`{"envVars":{"COLOUR":"blue"}}`)
	d.run(first, "echo 1 > a")
	named, plain := d.snapshot(first, `{"name":"tests pass"}`), d.snapshot(first, `{}`)
	if named.SnapshotID == plain.SnapshotID || !slices.Equal(named.Names, []string{"tests pass"}) || len(plain.Names) != 0 || plain.Names == nil {
		t.Errorf("the snapshots are %+v and %+v", named, plain)
	}
	d.run(first, "echo 2 > a")

	again := d.create(fmt.Sprintf(`{"templateID":%q,"metadata":{"n":"1"}}`, named.SnapshotID))
	if got := d.run(again, "cat a; echo $COLOUR"); got != "1\nblue\n" || again.TemplateID != named.SnapshotID {
		t.Errorf("%+v has %q", again, got)
	}
	if got := d.list("template=" + named.SnapshotID); !slices.Equal(ids(got), []string{again.SandboxID}) || got[0][0].Metadata["n"] != "1" {
		t.Errorf("of the snapshot there are %v", got)
	}
	d.call("DELETE", "/templates/"+named.SnapshotID, "", http.StatusNoContent, nil)
	d.call("DELETE", "/templates/"+named.SnapshotID, "", http.StatusNotFound, nil)
	d.call("POST", "/v2/sandboxes", fmt.Sprintf(`{"templateID":%q}`, named.SnapshotID), http.StatusNotFound, nil)
	d.call("DELETE", "/sandboxes/"+first.SandboxID, "", http.StatusNoContent, nil)
	d.call("POST", "/v2/sandboxes", fmt.Sprintf(`{"templateID":%q}`, plain.SnapshotID), http.StatusNotFound, nil) // it went with its sandbox
}

func TestSnapshotsAreListed(t *testing.T) {
	contracts.Record(t, "e2b", "HTTP").Saw(contracts.Differs, "listSnapshots")
	d := newDoor(t)
	one, two := d.create(`{}`), d.create(`{}`)
	var made []string // the oldest first
	for i, of := range []sandbox{one, two, one} {
		made = append(made, d.snapshot(of, fmt.Sprintf(`{"name":"n%d"}`, i)).SnapshotID)
	}
	d.call("POST", "/sandboxes/"+one.SandboxID+"/fork", "", http.StatusCreated, nil) // whose checkpoint is none
	for query, want := range map[string][]string{
		"":                             {made[2], made[1], made[0]},
		"sandboxID=" + one.SandboxID:   {made[2], made[0]},
		"sandboxID=" + two.SandboxID:   {made[1]},
		"sandboxID=none":               {},
		"sandboxID=x--other":           {},
		"sandboxID=A":                  {},
		"name=n1":                      {made[1]},
		"name=" + made[0]:              {made[0]},
		"name=n1&sandboxID=none--acme": {},
	} {
		for limit, pages := range map[int]int{2: (len(want) + 1) / 2, 1000: 1} {
			got := d.snapshots(fmt.Sprintf("%s&limit=%d", query, limit))
			if !slices.Equal(slices.Concat(got...), want) && len(want) > 0 || len(got) != max(1, pages) {
				t.Errorf("%s in pages of %d: %v, want %v in %d", query, limit, got, want, pages)
			}
		}
	}
	for _, query := range []string{"limit=0", "nextToken=x", "%zz"} {
		d.call("GET", "/snapshots?"+query, "", http.StatusBadRequest, nil)
	}
	if got := d.send("GET", "/snapshots?sandboxID="+one.SandboxID, "", "X-API-KEY: "+strange); got.text != "[]\n" {
		t.Errorf("another tenant sees %s", got.text)
	}
}

func TestSnapshotsThatAreNoneOfTheTenants(t *testing.T) {
	d := newDoor(t)
	s := d.create(`{}`)
	d.run(s, "echo 1 > a")
	id := d.snapshot(s, `{}`).SnapshotID
	none := s.SandboxID + ":" + strings.Repeat("0", 64)
	for _, id := range []string{id[:len(id)-1], id + "0", strings.ToUpper(id), none, s.SandboxID + ":", ":" + none, "x" + id, strings.Replace(id, "--acme", "--other", 1), "missing"} {
		d.call("DELETE", "/templates/"+id, "", http.StatusNotFound, nil)
		d.call("POST", "/v2/sandboxes", fmt.Sprintf(`{"templateID":%q}`, id), http.StatusNotFound, nil)
	}
	for _, request := range [][3]string{
		{"DELETE", "/templates/" + id, ""},
		{"POST", "/v2/sandboxes", fmt.Sprintf(`{"templateID":%q}`, id)},
		{"POST", "/sandboxes/" + s.SandboxID + "/snapshots", `{}`},
		{"POST", "/sandboxes/" + s.SandboxID + "/fork", `{}`},
	} {
		got := d.send(request[0], request[1], request[2], "X-API-KEY: "+strange)
		if got.StatusCode != http.StatusNotFound {
			t.Errorf("%v of another tenant: %d %s", request, got.StatusCode, got.text)
		}
	}
	for body, status := range map[string]int{`{"name":1}`: 400, `{`: 400, fmt.Sprintf(`{"name":%q}`, strings.Repeat("x", 1000)): 400} {
		d.call("POST", "/sandboxes/"+s.SandboxID+"/snapshots", body, status, nil)
	}
	if got := d.snapshots(""); !slices.Equal(got[0], []string{id}) {
		t.Errorf("after what was refused there are %v", got)
	}
	if got := ids(d.list("")); !slices.Equal(got, []string{s.SandboxID}) {
		t.Errorf("after what was refused there are %v", got)
	}
}

// forked is an entry of the answer to a fork.
type forked struct {
	Sandbox *sandbox
	Error   *struct {
		Code    int
		Message string
	}
}

func TestSandboxIsForked(t *testing.T) {
	contracts.Record(t, "e2b", "HTTP").Saw(contracts.Differs, "fork")
	d := newDoor(t)
	s := d.create(`{"envVars":{"COLOUR":"blue"},"metadata":{"team":"red","what for?":"a/b & c"},"network":{"allowPublicTraffic":true}}`)
	d.run(s, "echo 1 > a")
	var made []forked
	d.call("POST", "/sandboxes/"+s.SandboxID+"/fork", `{"count":5,"timeout":60}`, http.StatusCreated, &made)
	if len(made) != 5 {
		t.Fatalf("there are %d", len(made))
	}
	names := map[string]bool{s.SandboxID: true}
	for _, f := range made {
		if f.Error != nil || f.Sandbox == nil {
			t.Fatalf("%+v", f)
		}
		if got := d.run(*f.Sandbox, "cat a; echo $COLOUR"); got != "1\nblue\n" || f.Sandbox.EnvdAccessToken == s.EnvdAccessToken {
			t.Errorf("%+v has %q", f.Sandbox, got)
		}
		var is struct {
			Metadata map[string]string
			Network  struct{ AllowPublicTraffic bool }
		}
		if d.call("GET", "/sandboxes/"+f.Sandbox.SandboxID, "", http.StatusOK, &is); is.Metadata["team"] != "red" || is.Metadata["what for?"] != "a/b & c" || !is.Network.AllowPublicTraffic {
			t.Errorf("it is %+v", is)
		}
		names[f.Sandbox.SandboxID] = true
	}
	if len(names) != 6 {
		t.Errorf("the ids are %v", names)
	}
}

func TestForksThatAreRefused(t *testing.T) {
	d := newDoor(t)
	s := d.create(`{}`)
	for body, want := range map[string]string{
		`{"count":0}`:   "count: 0 is not from 1 to 100",
		`{"count":-1}`:  "count: -1 is not",
		`{"count":101}`: "count: 101 is not",
		`{"count":1.5}`: "the body: ",
		`{"timeout":0}`: "timeout: 0 is not",
		`[]`:            "the body: ",
	} {
		if got := d.call("POST", "/sandboxes/"+s.SandboxID+"/fork", body, http.StatusBadRequest, nil); !strings.Contains(got.text, want) {
			t.Errorf("%s: %s", body, got.text)
		}
	}
	d.call("POST", "/sandboxes/none/fork", `{}`, http.StatusNotFound, nil)
	if got := ids(d.list("")); len(got) != 1 {
		t.Errorf("after what was refused there are %v", got)
	}
}

// What a sandbox does not reach, its forks and those of its snapshots do not reach either, by no other way.
func TestForksReachNoMore(t *testing.T) {
	port := site(t)
	d := letOut(t, fmt.Sprintf(`allow_hosts: ["a.test=127.0.0.1:%d", "b.test=127.0.0.1:%d"]`, port, port))
	s := d.create(fmt.Sprintf(`{"network":{"allowOut":["a.test:%d"]}}`, port))
	var forks []forked
	d.call("POST", "/sandboxes/"+s.SandboxID+"/fork", "", http.StatusCreated, &forks)
	of := fmt.Sprintf(`{"templateID":%q`, d.snapshot(s, "").SnapshotID)
	for _, made := range []sandbox{*forks[0].Sandbox, d.create(of + "}"), d.create(of + `,"network":{"allowOut":["0.0.0.0/0"]}}`)} {
		for script, want := range map[string]bool{
			fmt.Sprintf("curl -sS http://a.test:%d/", port):                  true,
			fmt.Sprintf("curl -sS http://b.test:%d/", port):                  false,
			fmt.Sprintf("curl -sS --noproxy '*' http://127.0.0.1:%d/", port): false,
		} {
			if got := d.run(made, script); (got == "hello") != want {
				t.Errorf("%s: %q", script, got)
			}
		}
	}
}

// Where commands could leave by other ways since its sandbox was made, there is neither a fork nor a sandbox of a
// snapshot.
func TestForksAreConfined(t *testing.T) {
	d := letOut(t, "mode: landlock")
	s := d.create(`{"allow_internet_access":false}`)
	id := d.snapshot(s, "").SnapshotID
	d.replaceKeys(fmt.Sprintf("tenants:\n  acme: {keys: [{sha256: %x}], egress: {mode: advisory}}\n", sha256.Sum256([]byte(key))))
	var forks []forked
	d.call("POST", "/sandboxes/"+s.SandboxID+"/fork", `{"count":2}`, http.StatusCreated, &forks)
	for _, f := range forks {
		if f.Sandbox != nil || f.Error == nil || f.Error.Code != http.StatusNotImplemented {
			t.Errorf("there is %+v: %+v", f.Sandbox, f.Error)
		}
	}
	d.call("POST", "/v2/sandboxes", fmt.Sprintf(`{"templateID":%q}`, id), http.StatusNotImplemented, nil)
	if got := ids(d.list("")); !slices.Equal(got, []string{s.SandboxID}) {
		t.Errorf("there are %v", got)
	}
}
