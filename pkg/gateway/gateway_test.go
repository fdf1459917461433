package gateway_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		serveChild(dir)
		return
	}
	os.Exit(launchertest.Main(m))
}

// door is a gateway over a local launcher, with the tenants acme and other, whose tokens are a
// and o.
type door struct {
	*testing.T
	url     string
	keys    string
	state   string // the launcher's directory
	gateway *gateway.Gateway
}

func newDoor(t *testing.T, edit ...func(*gateway.Options)) *door {
	t.Helper()
	d := &door{T: t, keys: filepath.Join(t.TempDir(), "keys.yaml")}
	d.writeKeys(fmt.Sprintf("tenants:\n  acme:\n    keys:\n    - sha256: %s\n  other:\n    keys:\n    - sha256: %s\n", hashOf("a"), hashOf("o")))
	l := launchertest.Local(t)
	d.state = l.StateDir
	o := gateway.Options{Launcher: l, Tenants: &gateway.Keys{Path: d.keys}, Domain: "sandboxes.test"}
	for _, edit := range edit {
		edit(&o)
	}
	g := gateway.New(o)
	server := newServer(g)
	t.Cleanup(func() {
		server.Close()
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	d.url, d.gateway = server.URL, g
	return d
}

// newServer serves HTTP/1 and HTTP/2.
func newServer(h http.Handler) *httptest.Server {
	server := httptest.NewUnstartedServer(h)
	server.Config.Protocols = &http.Protocols{}
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	return server
}

func hashOf(token string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(token))) }

func (d *door) writeKeys(text string) {
	d.Helper()
	next := d.keys + ".next"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		d.Fatal(err)
	}
	if err := os.Rename(next, d.keys); err != nil {
		d.Fatal(err)
	}
}

// answer is what came of a request.
type answer struct {
	*http.Response
	text string
}

// send sends a request, with headers given as "Name: value".
func (d *door) send(token, method, path, body string, headers ...string) answer {
	d.Helper()
	req, err := http.NewRequestWithContext(d.Context(), method, d.url+path, strings.NewReader(body))
	if err != nil {
		d.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		req.Header.Set(name, value)
		if name == "Host" {
			req.Host = value
		}
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		d.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		d.Fatal(err)
	}
	return answer{r, string(text)}
}

// step is a request, and what must come of it.
type step struct {
	method, path, body string
	headers            []string
	status             int
	want               string // a regular expression that the answer matches
}

// walk takes the steps as the tenant acme. {id} in a path is the sandbox's.
func (d *door) walk(steps ...step) {
	d.Helper()
	for _, s := range steps {
		path := strings.Replace(s.path, "~", "/api/v1/sandboxes/job-1", 1)
		got := d.send("a", s.method, path, s.body, s.headers...)
		if got.StatusCode != s.status || !regexp.MustCompile(s.want).MatchString(got.text) {
			d.Errorf("%s %s %s: %d %s\nwant %d %s", s.method, s.path, s.body, got.StatusCode, got.text, s.status, s.want)
		}
	}
}

func TestSandboxIsMadeOnceFoundAndRemoved(t *testing.T) {
	d := newDoor(t)
	d.walk(
		step{"GET", "/api/v1/sandboxes", "", nil, 200, `"sandboxes":\[\]`},
		step{"POST", "/api/v1/sandboxes", `{"id":"job-1"}`, nil, 201, `"id":"job-1","state":"running","workdir":"/`},
		step{"POST", "/api/v1/sandboxes", `{"id":"job-1"}`, nil, 200, `"id":"job-1"`},
		step{"POST", "/api/v1/sandboxes", `{}`, []string{"Idempotency-Key: one"}, 201, `"id":"k-[a-z2-7]{26}"`},
		step{"POST", "/api/v1/sandboxes", `{}`, []string{"Idempotency-Key: one"}, 200, `"id":"k-[a-z2-7]{26}"`},
		step{"POST", "/api/v1/sandboxes", `{"env":["A=b"]}`, []string{"Idempotency-Key: one"}, 409, `"class":"conflict"`},
		step{"POST", "/api/v1/sandboxes", `{"id":"job-1"}`, []string{"Idempotency-Key: two"}, 200, `"id":"job-1"`},
		step{"POST", "/api/v1/sandboxes", `{"id":"Job 1"}`, nil, 422, `"location":"body.id"`},
		step{"POST", "/api/v1/sandboxes", `{"idd":"x"}`, nil, 422, `unexpected property`},
		step{"GET", "/api/v1/sandboxes?limit=1", "", nil, 200, `"sandboxes":\[\{"id":"job-1",.*\],"next":"job-1"`},
		step{"GET", "/api/v1/sandboxes?limit=1&after=job-1", "", nil, 200, `"sandboxes":\[\{"id":"k-[^]]*\}\]\}`},
		step{"GET", "/api/v1/sandboxes?state=paused", "", nil, 200, `"sandboxes":\[\]`},
		step{"GET", "~", "", nil, 200, `"state":"running"`},
		step{"GET", "/api/v1/sandboxes/none", "", nil, 404, `"class":"no_sandbox"`},
		step{"POST", "~/pause", "", nil, 501, `cannot be paused`},
		step{"POST", "~/extend", `{"additional_seconds":60}`, nil, 501, ``},
		step{"PUT", "~/expires", `{"at":"2100-01-01T00:00:00Z"}`, nil, 501, ``},
		step{"PUT", "~/expires", `{"at":"tomorrow"}`, nil, 422, `"location":"body.at"`},
		step{"DELETE", "~", "", nil, 204, `^$`},
		step{"DELETE", "~", "", nil, 404, `"class":"no_sandbox"`},
		step{"GET", "~", "", nil, 404, `"class":"no_sandbox"`},
		step{"POST", "~/exec", `{"script":"true"}`, nil, 404, `"class":"no_sandbox"`},
	)
}

func TestFilesAreReadAndChanged(t *testing.T) {
	d := newDoor(t)
	d.send("a", "POST", "/api/v1/sandboxes", `{"id":"job-1"}`)
	d.walk(
		step{"PUT", "~/files?path=a%20b", "hello", []string{"If-None-Match: *"}, 201, `^$`},
		step{"PUT", "~/files?path=a%20b", "hello", []string{"If-None-Match: *"}, 409, `"class":"exist"`},
		step{"PUT", "~/files?path=a%20b", "hello again", nil, 200, `^$`},
		step{"PUT", "~/files?path=a%20b", "other", []string{`If-Match: "other"`}, 412, `"class":"changed"`},
		step{"PUT", "~/files?path=a%20b", "other", []string{`If-Match: other`}, 422, `If-Match`},
		step{"GET", "~/files?path=a%20b", "", nil, 200, `^hello again$`},
		step{"GET", "~/files?path=a%20b", "", []string{"Range: bytes=6-8"}, 206, `^aga$`},
		step{"GET", "~/files?path=a%20b", "", []string{"Range: bytes=100-"}, 416, ``},
		step{"HEAD", "~/files?path=a%20b", "", nil, 200, `^$`},
		step{"GET", "~/files?path=none", "", nil, 404, `"class":"not_exist"`},
		step{"GET", "~/files?path=.", "", nil, 409, `"class":"is_directory"`},
		step{"GET", "~/files?path=a%20b", "", []string{"Range: bytes=0-1,4-5"}, 206, `(?s)he.*o `},
		step{"PUT", "~/files?path=empty", "", nil, 201, `^$`},
		step{"GET", "~/files?path=empty", "", nil, 200, `^$`},
		step{"DELETE", "~/files?path=empty", "", nil, 204, `^$`},
		step{"GET", "~/files", "", nil, 422, `lacks path`},
		step{"GET", "~/files?path=a&path=b", "", nil, 422, ``},
		step{"GET", "~/files?path=a&pth=b", "", nil, 422, `pth`},
		step{"GET", "~/files/stat?path=a%20b", "", nil, 200, `"path":"a b","type":"file","size":11,"mode":"0644"`},
		step{"POST", "~/files/mkdir", `{"path":"d/e","parents":true}`, nil, 204, ``},
		step{"POST", "~/files/mkdir", `{"path":"d/e"}`, nil, 409, `"class":"exist"`},
		step{"POST", "~/files/mkdir", `{"path":"f","mode":"9"}`, nil, 422, `octal`},
		step{"POST", "~/files/move", `{"from":"a b","to":"d/e/b"}`, nil, 204, ``},
		step{"PUT", "~/files?path=d/e/%FF", "x", nil, 201, ``},
		step{"GET", "~/files/list?path=d/e", "", nil, 200, `"path":"d/e/b".*"path_base64":"ZC9l`},
		step{"GET", "~/files/list?path=d&recursive=true&limit=1", "", nil, 200, `"truncated":true`},
		step{"POST", "~/files/edit", `{"path":"d/e/b","edits":[{"old":"again","new":"there"}]}`, nil, 200, `"diff":"--- .*\\n\+hello there`},
		step{"POST", "~/files/edit", `{"path":"d/e/b","edits":[{"old":"none","new":""}]}`, nil, 409, `"class":"edit"`},
		step{"GET", "~/glob?pattern=**/b", "", nil, 200, `^{"type":"file","path":"d/e/b"}\n{"type":"end"}\n$`},
		step{"GET", "~/glob?pattern=**/b&sort=size", "", nil, 422, `sort`},
		step{"GET", "~/glob?pattern=[", "", nil, 422, `"class":"pattern"`},
		step{"POST", "~/grep", `{"pattern":"th.re"}`, nil, 200, `^{"type":"match","path":"d/e/b","line":1,"offset":0,"text":"hello there"}\n{"type":"end","files":2,"matches":1}\n$`},
		step{"POST", "~/grep", `{"pattern":"("}`, nil, 422, `"class":"pattern"`},
		step{"POST", "~/grep", `{"pattern":"x","report":"all"}`, nil, 422, `report`},
		step{"POST", "~/grep", `{"pattern":"x","other":1}`, nil, 422, `other`},
		step{"DELETE", "~/files?path=d", "", nil, 409, `"class":"not_empty"`},
		step{"DELETE", "~/files?path=d&recursive=yes", "", nil, 422, `recursive`},
		step{"DELETE", "~/files?path=d&recursive=true", "", nil, 204, `^$`},
	)
}

// A file that is replaced while it is read has the etag, the size and the content of one state.
func TestFileAndItsETagBelongTogether(t *testing.T) {
	d := newDoor(t)
	d.send("a", "POST", "/api/v1/sandboxes", `{"id":"job-1"}`)
	const path, states = "/api/v1/sandboxes/job-1/files?path=state", 100
	content := func(i int) string { return strings.Repeat(strconv.Itoa(i%10), 1000+i) }
	var written sync.Map // what has an etag
	put := func(i int) {
		got := d.send("a", "PUT", path, content(i))
		if got.StatusCode/100 != 2 {
			t.Errorf("%d %s", got.StatusCode, got.text)
		}
		written.Store(got.Header.Get("ETag"), content(i))
	}
	put(0)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range states {
			put(i)
		}
	}()
	var read []answer
	for ended := false; !ended; {
		select {
		case <-done:
			ended = true
		default:
			read = append(read, d.send("a", "GET", path, ""))
		}
	}
	for _, got := range read {
		want, ok := written.Load(got.Header.Get("ETag"))
		if got.StatusCode == 503 && !ok {
			continue // it was told to try again
		}
		if !ok || got.text != want {
			t.Errorf("%d: %d bytes with the etag of %d others", got.StatusCode, len(got.text), len(fmt.Sprint(want)))
		}
	}
}

func TestTreeComesAndGoesWhole(t *testing.T) {
	d := newDoor(t)
	d.send("a", "POST", "/api/v1/sandboxes", `{"id":"job-1"}`)
	d.walk(
		step{"PUT", "~/files?path=from/a/b&parents=true", "hello", nil, 201, ``},
		step{"GET", "~/tree?path=none", "", nil, 404, `"class":"not_exist"`},
	)
	archive := d.send("a", "GET", "/api/v1/sandboxes/job-1/tree?path=from", "")
	if archive.StatusCode != 200 || archive.Header.Get("Content-Type") != "application/x-tar" {
		t.Fatalf("%d %v", archive.StatusCode, archive.Header)
	}
	d.walk(
		step{"PUT", "~/tree?path=to", archive.text, nil, 200, `"entries":[23],"bytes":5,"skipped":0`},
		step{"GET", "~/files?path=to/a/b", "", nil, 200, `^hello$`},
		step{"PUT", "~/tree?path=to", "no archive", nil, 422, `"class":"archive"`},
	)
}

func TestExecAnswersHowItsCommandEnded(t *testing.T) {
	d := newDoor(t)
	d.send("a", "POST", "/api/v1/sandboxes", `{"id":"job-1"}`)
	const lines = "Accept: application/jsonl"
	d.walk(
		step{"POST", "~/exec", `{"script":"echo out; echo err >&2; exit 3"}`, nil, 200, `"reason":"exited","code":3,.*"stdout":"out\\n","stderr":"err\\n"`},
		step{"POST", "~/exec", `{"args":["cat"],"stdin":"aGVsbG8="}`, nil, 200, `"code":0,.*"stdout":"hello"`},
		step{"POST", "~/exec", `{"args":["printf","\\377"]}`, nil, 200, `"stdout_base64":"/w=="`},
		step{"POST", "~/exec", `{"args":["sleep","100"],"timeout_seconds":0.1}`, nil, 200, `"reason":"timed out"`},
		step{"POST", "~/exec", `{"args":["none"]}`, nil, 404, `"class":"not_exist"`},
		step{"POST", "~/exec", `{}`, nil, 422, `"class":"invalid"`},
		step{"POST", "~/exec", `{`, nil, 400, `the body`},
		step{"POST", "~/exec", ``, nil, 400, `the body is empty`},
		step{"POST", "~/exec", `{"script":"echo é; exit 1"}`, []string{lines}, 200, `^{"type":"start","exec_id":".*"}\n{"type":"stdout","offset":0,"data":"é\\n"}\n{"type":"exit","exit":{.*"code":1.*}}\n$`},
		step{"POST", "~/exec", `{"args":["printf","a\\303"]}`, []string{lines}, 200, `"offset":0,"data":"a"}\n{"type":"stdout","offset":1,"data_base64":"ww=="}\n{"type":"exit"`},
		step{"POST", "~/exec", `{"script":"echo"}`, []string{"Idempotency-Key: one"}, 422, `UUIDv7`},
	)
}

func TestRepeatedExecRunsOnce(t *testing.T) {
	d := newDoor(t)
	d.send("a", "POST", "/api/v1/sandboxes", `{"id":"job-1"}`)
	key := "Idempotency-Key: " + uuid.Must(uuid.NewV7()).String()
	const body = `{"script":"echo x >> ran; cat ran"}`
	d.walk(
		step{"POST", "~/exec", body, []string{key}, 200, `"stdout":"x\\n"`},
		step{"POST", "~/exec", body, []string{key}, 200, `"stdout":"x\\n"`},
		step{"POST", "~/exec", body, []string{key, "Accept: application/jsonl"}, 200, `"data":"x\\n"`},
		step{"POST", "~/exec", `{"script":"other"}`, []string{key}, 409, `"class":"conflict"`},
		step{"GET", "~/files?path=ran", "", nil, 200, `^x\n$`},
	)
}

func TestOutputIsReadFromAnOffset(t *testing.T) {
	d := newDoor(t)
	d.send("a", "POST", "/api/v1/sandboxes", `{"id":"job-1"}`)
	var ran struct {
		ID string `json:"exec_id"`
	}
	if err := json.Unmarshal([]byte(d.send("a", "POST", "/api/v1/sandboxes/job-1/exec", `{"script":"echo hello"}`).text), &ran); err != nil {
		t.Fatal(err)
	}
	d.walk(
		step{"GET", "~/processes", "", nil, 200, `"script":"echo hello",.*"stdout_bytes":6,"stderr_bytes":0,"exit":{`},
		step{"GET", "~/processes/" + ran.ID + "/output?stdout_offset=2", "", nil, 200, `^{"type":"stdout","offset":2,"data":"llo\\n"}\n{"type":"exit",`},
		step{"GET", "~/processes/" + ran.ID + "/output?stdout_offset=-1", "", nil, 422, `stdout_offset`},
		step{"POST", "~/processes/" + ran.ID + "/signal", `{"signal":15}`, nil, 409, `"class":"process_done"`},
		step{"POST", "~/processes/none/signal", `{"signal":15}`, nil, 404, `"class":"not_exist"`},
	)
}
