package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/podagent/podagent/pkg/gateway"
)

// witness is an observer that remembers.
type witness struct {
	mu     sync.Mutex
	begun  map[string]gateway.Act
	lines  []string // of the acts that ended
	refuse bool
}

func (w *witness) Begin(_ context.Context, a gateway.Act) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuse {
		return errors.New("the disk is full")
	}
	if w.begun == nil {
		w.begun = map[string]gateway.Act{}
	}
	w.begun[a.ID] = a
	return nil
}

func (w *witness) End(_ context.Context, a gateway.Act, o gateway.Outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	exit := ""
	if o.Exit != nil {
		exit = fmt.Sprint(" exit ", *o.Exit)
	}
	began := w.begun[a.ID]
	w.lines = append(w.lines, fmt.Sprintf("%s %s %s %q %q %d %s%s in %d out %t", began.Tenant, a.Operation, a.Sandbox, began.Args, began.Paths, o.Status, o.Class, exit, o.In, o.Out > 0))
}

// last returns what there is to say about the act that ended last.
func (w *witness) last(t *testing.T, n int) string {
	t.Helper()
	eventually(t, "the end of the act", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.lines) >= n
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.lines) > n {
		t.Errorf("more acts ended than there were: %q", w.lines)
	}
	return w.lines[n-1]
}

func TestObserversAreToldOfEveryActBeforeItAndAfterIt(t *testing.T) {
	w := &witness{}
	d := newDoor(t, func(o *gateway.Options) { o.Observers = []gateway.Observer{w} })
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/cut" {
			fmt.Fprint(w, strings.Repeat("x", 8192))
			panic(http.ErrAbortHandler)
		}
	}))
	defer server.Close()
	const own = "/api/v1/sandboxes/job-1"
	port := "X-Sandbox-Port: " + portOf(server)
	for i, s := range []struct {
		method, path, body string
		headers            []string
		want               string
	}{
		{"POST", "/api/v1/sandboxes", `{"id":"job-1"}`, nil, `acme create-sandbox job-1 [] [] 201  in 14 out true`},
		{"POST", "/api/v1/sandboxes", `{"id":"Job 1"}`, nil, `acme create-sandbox  [] [] 422 invalid in 14 out true`},
		{"POST", own + "/exec", `{"args":["sh","-c","exit 3"]}`, nil, `acme exec job-1 ["sh" "-c" "exit 3"] [] 200  exit 3 in 29 out true`},
		{"POST", own + "/exec", `{"script":"exit 4"}`, []string{"Accept: application/jsonl"}, `acme exec job-1 ["exit 4"] [] 200  exit 4 in 19 out true`},
		{"POST", own + "/exec", `{"what":1}`, nil, `acme exec job-1 [] [] 422 invalid in 10 out true`},
		{"PUT", own + "/files?path=a", "data", nil, `acme write-file job-1 [] ["a"] 201  in 4 out false`},
		{"GET", own + "/files?path=b", "", nil, `acme read-file job-1 [] ["b"] 404 not_exist in 0 out true`},
		{"POST", own + "/files/move", `{"from":"a","to":"c"}`, nil, `acme move-file job-1 [] ["a" "c"] 204  in 21 out false`},
		{"POST", own + "/grep", `{"pattern":"d","paths":["c"]}`, nil, `acme grep job-1 [] ["c"] 200  in 29 out true`},
		{"GET", "/page?q=secret", "", []string{"X-Sandbox-ID: job-1", port}, `acme route job-1 [] ["/page"] 200  in 0 out false`},
		{"GET", "/", "", []string{"X-Sandbox-ID: job-1", "X-Sandbox-Port: 1"}, `acme route job-1 [] ["/"] 502 no_server in 0 out true`},
		{"GET", "/api/v1/sandboxes/job-2", "", nil, `acme get-sandbox job-2 [] [] 404 no_sandbox in 0 out true`},
		{"GET", "/api/v1/else", "", nil, `acme   [] [] 404  in 0 out true`},
	} {
		id := d.send("a", s.method, s.path, s.body, s.headers...).Header.Get("X-Request-Id")
		if got := w.last(t, i+1); got != s.want {
			t.Errorf("%s %s: %s\nwant %s", s.method, s.path, got, s.want)
		}
		w.mu.Lock()
		if _, known := w.begun[id]; !known && !slices.Contains(s.headers, port) {
			t.Errorf("%s %s has the id %q, which is no act's", s.method, s.path, id)
		}
		w.mu.Unlock()
	}
	r := d.begin("GET", "/cut", "", "X-Sandbox-ID: job-1", port)
	if got, want := w.last(t, 14), `acme route job-1 [] ["/cut"] 200 cut in 0 out true`; got != want {
		t.Errorf("an answer that was cut off: %s\nwant %s", got, want)
	}
	r.Body.Close()
}

func TestNothingIsDoneThatAnObserverCannotRecord(t *testing.T) {
	w := &witness{refuse: true}
	d := newDoor(t, func(o *gateway.Options) { o.Observers = []gateway.Observer{w} })
	if got := d.send("a", "POST", "/api/v1/sandboxes", `{"id":"job-1"}`); got.StatusCode != 503 || !strings.Contains(got.text, `"unavailable"`) || strings.Contains(got.text, "disk") {
		t.Errorf("create: %d %s", got.StatusCode, got.text)
	}
	w.mu.Lock()
	w.refuse = false
	w.mu.Unlock()
	d.walk(step{"GET", "~", "", nil, 404, "no_sandbox"}, step{"POST", "/api/v1/sandboxes", `{"id":"job-1"}`, nil, 201, ""})
	w.mu.Lock()
	w.refuse = true
	w.mu.Unlock()
	if got := d.send("a", "GET", "/", "", "X-Sandbox-ID: job-1"); got.StatusCode != 503 {
		t.Errorf("a routed request: %d %s", got.StatusCode, got.text)
	}
	d.walk(step{"POST", "~/exec", `{"script":"echo > ran"}`, nil, 503, "cannot record"})
	w.mu.Lock()
	w.refuse = false
	w.mu.Unlock()
	d.walk(step{"GET", "~/files?path=ran", "", nil, 404, "not_exist"})
}
