package checkout_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podagent/podagent/cmd/podagent/internal/checkout"
	"github.com/podagent/podagent/cmd/podagent/internal/proc"
	"github.com/podagent/podagent/internal/gittest"
)

// hung is how long a test waits for something that must happen.
const hung = 2 * time.Minute

// helperVariable makes this test program do the checkout in its value, so that a
// checkout can be killed.
const helperVariable = "CHECKOUT_TEST_OPTIONS"

func TestMain(m *testing.M) {
	if text := os.Getenv(helperVariable); text != "" {
		var o checkout.Options
		if err := json.Unmarshal([]byte(text), &o); err != nil {
			panic(err)
		}
		if _, err := checkout.Run(context.Background(), inTest(o)); err != nil {
			panic(err)
		}
		return
	}
	os.Exit(m.Run())
}

// processes starts the processes of all tests.
var processes = proc.NewManager(proc.Options{})

// relays are those of all checkouts of the tests, as an agent has them.
var relays checkout.Relays

// inTest returns options with the environment of the test.
func inTest(o checkout.Options) checkout.Options {
	o.Env, o.Processes, o.Relays = os.Environ(), processes, &relays
	return o
}

// git runs git as a user would, and returns its output.
func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// source is a repository to check out, with a work tree to commit in.
type source struct {
	t    testing.TB
	work string
	bare string
}

// newSource returns a repository with two commits on main. file.txt is "one\n",
// then "two\n"; sub/dir/deep.txt does not change.
func newSource(t testing.TB) *source {
	t.Helper()
	root := t.TempDir()
	s := &source{t: t, work: filepath.Join(root, "work"), bare: filepath.Join(root, "served", "repo.git")}
	gittest.Run(t, root, "init", "-q", "-b", "main", "work")
	gittest.Run(t, root, "init", "-q", "-b", "main", "--bare", s.bare)
	write(t, filepath.Join(s.work, "sub/dir/deep.txt"), "deep\n")
	s.commit("file.txt", "one\n")
	s.commit("file.txt", "two\n")
	return s
}

// commit commits a file on the current branch, publishes it, and returns the
// commit's id.
func (s *source) commit(name, content string) string {
	s.t.Helper()
	write(s.t, filepath.Join(s.work, name), content)
	gittest.Run(s.t, s.work, "add", "-A")
	gittest.Run(s.t, s.work, "commit", "-q", "-m", name+" is "+strings.TrimSpace(content))
	s.publish("HEAD")
	return s.id("HEAD")
}

// publish pushes refspecs. HEAD means the current branch.
func (s *source) publish(refspecs ...string) {
	s.t.Helper()
	gittest.Run(s.t, s.work, append([]string{"push", "-q", "--force", s.bare}, refspecs...)...)
}

func (s *source) id(name string) string {
	s.t.Helper()
	return gittest.Run(s.t, s.work, "rev-parse", name+"^{commit}")
}

// server serves a source with git's own server program.
type server struct {
	*httptest.Server
	username, password string // required, if not empty

	mu     sync.Mutex
	before func(http.ResponseWriter, *http.Request) bool // reports whether it has answered
}

func serve(t testing.TB, s *source) *server {
	t.Helper()
	backend := gittest.Handler(t, filepath.Dir(s.bare))
	v := &server{}
	v.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v.mu.Lock()
		before := v.before
		v.mu.Unlock()
		if before != nil && before(w, r) {
			return
		}
		username, password, _ := r.BasicAuth()
		if v.username != "" && (username != v.username || password != v.password) {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "who are you, "+r.Header.Get("Authorization")+"?", http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, r)
	}))
	t.Cleanup(v.Close)
	return v
}

func (v *server) intercept(f func(http.ResponseWriter, *http.Request) bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.before = f
}

func (v *server) repo() string { return v.URL + "/repo.git" }

// emptyDir returns a directory to check out in. The test has its own directory for
// temporary files, which must be empty at its end.
func emptyDir(t testing.TB) string {
	t.Helper()
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	t.Cleanup(func() {
		if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
			t.Errorf("left in the temporary directory: %v, %v", left, err)
		}
	})
	dir := filepath.Join(t.TempDir(), "workspace")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// run does a checkout that must succeed.
func run(t testing.TB, o checkout.Options) checkout.Result {
	t.Helper()
	result, err := checkout.Run(t.Context(), inTest(o))
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// fails does a checkout that must fail with a message that contains all words.
func fails(t testing.TB, o checkout.Options, words ...string) {
	t.Helper()
	result, err := checkout.Run(t.Context(), inTest(o))
	if err == nil {
		t.Fatalf("no error, but %+v", result)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not have %q", err, w)
		}
	}
}

// names returns the names in a directory.
func names(t testing.TB, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}
