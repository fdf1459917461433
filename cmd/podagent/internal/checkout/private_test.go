package checkout_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/podagent/podagent/cmd/podagent/internal/checkout"
	"github.com/podagent/podagent/internal/gittest"
)

const (
	username = "deploy"
	password = "hunter2-is-a-secret"
)

// secrets are the forms in which the credentials could appear.
var secrets = []string{password, base64.StdEncoding.EncodeToString([]byte(username + ":" + password))}

// private returns a source behind a server that requires a password.
func private(t *testing.T) (*source, *server, checkout.Options) {
	t.Helper()
	s := newSource(t)
	v := serve(t, s)
	v.username, v.password = username, password
	o := checkout.Options{Dir: emptyDir(t), URL: v.repo(), Username: username, Password: password}
	return s, v, o
}

// shown returns where a secret appears: in the arguments and environments of all
// processes, and in all files below dirs.
func shown(t testing.TB, dirs ...string) (where []string) {
	t.Helper()
	look := func(path string) {
		data, _ := os.ReadFile(path) // a process or file that is gone shows nothing
		for _, s := range secrets {
			if strings.Contains(string(data), s) {
				where = append(where, path)
			}
		}
	}
	for _, pattern := range []string{"/proc/[0-9]*/cmdline", "/proc/[0-9]*/environ"} {
		processes, err := filepath.Glob(pattern)
		if err != nil || len(processes) == 0 {
			t.Errorf("%s: %v", pattern, err)
		}
		for _, p := range processes {
			// The server passes the header to its own program.
			if exe, _ := os.Readlink(filepath.Join(filepath.Dir(p), "exe")); !strings.Contains(exe, "http-backend") {
				look(p)
			}
		}
	}
	for _, dir := range dirs {
		filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				look(path)
			}
			return nil
		})
	}
	return where
}

// watchShown looks for the secrets whenever the server receives a request.
func watchShown(t *testing.T, v *server, dirs ...string) (requests func() int) {
	var mu sync.Mutex
	n := 0
	v.intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		n++
		if where := shown(t, dirs...); len(where) > 0 {
			t.Errorf("during %s %s the credentials are in %s", r.Method, r.URL, where)
		}
		return false
	})
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

func TestPrivateRepositoryIsClonedAndFetchedWithCredentialsInNoProcessOrFile(t *testing.T) {
	s, v, o := private(t)
	// A proxy for the outside must not be used for the relay.
	t.Setenv("http_proxy", "http://127.0.0.1:1")
	t.Setenv("no_proxy", "")
	requests := watchShown(t, v, o.Dir, os.Getenv("TMPDIR"))
	if got := run(t, o); got.Commit != s.id("main") {
		t.Errorf("got %+v", got)
	}
	first := requests()
	third := s.commit("file.txt", "three\n")
	if got := run(t, o); got.Commit != third {
		t.Errorf("got %+v", got)
	}
	if first < 3 || requests() < first+3 {
		t.Errorf("there were %d and %d requests", first, requests()-first)
	}
	if where := shown(t, o.Dir); len(where) > 0 {
		t.Errorf("the credentials are in %s", where)
	}
	if got := gittest.Run(t, o.Dir, "config", "remote.origin.url"); got != v.repo() {
		t.Errorf("the remote is %s", got)
	}
}

func TestMissingAndWrongCredentials(t *testing.T) {
	_, v, o := private(t)
	wrong := o
	wrong.Password = "wrong"
	fails(t, wrong, "does not accept the username and password (401 Unauthorized)")
	none := o
	none.Username, none.Password = "", ""
	fails(t, none, "could not read Username for '"+v.URL+"'")
	nowhere := o
	nowhere.URL = v.URL + "/nowhere.git"
	fails(t, nowhere, nowhere.URL, "not found")
	nobody := o
	nobody.URL = "http://127.0.0.1:1/repo.git"
	fails(t, nobody, "connection refused")
	ssh := o
	ssh.URL = "ssh://example.com/x"
	fails(t, ssh, "for the protocols https and http only")
}

// hostile configures a repository to run a program, and to send git elsewhere,
// wherever git allows it. Each run of the program logs what it sees: its
// environment, and the arguments and environments of all processes.
func hostile(t *testing.T, dir, elsewhere string) (runs func() string) {
	t.Helper()
	log := filepath.Join(t.TempDir(), "log")
	program := filepath.Join(t.TempDir(), "hostile")
	write(t, program, fmt.Sprintf("#!/bin/sh\n{ echo \"RAN $*\"; tr '\\0' '\\n' </proc/self/environ; cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ | tr '\\0' '\\n'; } >>%s 2>/dev/null\ncat 2>/dev/null\nexit 0\n", log))
	if err := os.Chmod(program, 0o755); err != nil {
		t.Fatal(err)
	}
	hooks := filepath.Join(dir, ".git", "hooks")
	for _, hook := range []string{"post-checkout", "post-merge", "reference-transaction", "post-index-change", "pre-auto-gc", "post-rewrite", "fsmonitor-watchman"} {
		os.Remove(filepath.Join(hooks, hook))
		if err := os.Symlink(program, filepath.Join(hooks, hook)); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, ".git/info/attributes"), "*.txt filter=hostile\n")
	for key, value := range map[string]string{
		"core.hooksPath": hooks, "core.fsmonitor": program, "core.sshCommand": program, "core.askPass": program,
		"core.gitProxy": program, "core.alternateRefsCommand": program, "core.pager": program, "core.editor": program,
		"credential.helper": program, "http.proxy": elsewhere, "http.extraHeader": "Hostile: yes", "http.followRedirects": "true",
		"url." + elsewhere + "/.insteadOf": "http://", "uploadpack.packObjectsHook": program, "remote.origin.uploadpack": program,
		"remote.origin.proxy": elsewhere, "gpg.program": program, "merge.verifySignatures": "false",
		"filter.hostile.clean": program + " clean", "filter.hostile.smudge": program + " smudge",
	} {
		gittest.Run(t, dir, "config", key, value)
	}
	return func() string {
		data, _ := os.ReadFile(log)
		return string(data)
	}
}

func TestHostileWorkTreeNeverSeesTheCredentials(t *testing.T) {
	s, v, o := private(t)
	run(t, o)
	var mu sync.Mutex
	var misled []string
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		misled = append(misled, fmt.Sprint(r.URL, r.Header))
	}))
	defer elsewhere.Close()
	runs := hostile(t, o.Dir, elsewhere.URL)
	var headers []string
	v.intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		headers = append(headers, r.Header.Get("Hostile"))
		return false
	})
	third := s.commit("file.txt", "three\n")
	if got := run(t, o); got.Commit != third || !got.Changed {
		t.Errorf("got %+v", got)
	}
	seen := runs()
	// The filters run because they are part of a checkout. Nothing else may run.
	if !strings.Contains(seen, "RAN smudge") {
		t.Errorf("the hostile program never ran: %.200s", seen)
	}
	for line := range strings.Lines(seen) {
		if strings.HasPrefix(line, "RAN") && !strings.Contains(line, "smudge") && !strings.Contains(line, "clean") {
			t.Errorf("the hostile program ran as %q", line)
		}
	}
	for _, secret := range secrets {
		if strings.Contains(seen, secret) {
			t.Errorf("the hostile program saw %s", secret)
		}
	}
	if len(misled) > 0 || len(headers) == 0 || strings.Join(headers, "") != "" {
		t.Errorf("the configuration led to requests %q, and headers %q", misled, headers)
	}
}

func TestConfigurationThatMisleadsTheLocalFetchIsAnError(t *testing.T) {
	s, dir, o := cloned(t)
	other := newSource(t)
	gittest.Run(t, other.work, "commit", "-q", "--allow-empty", "-m", "hostile")
	other.publish("HEAD:refs/podagent/fetched")
	v := serve(t, other)
	v.intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		_, rest, _ := strings.Cut(r.URL.Path, "/fetch.git")
		r.URL.Path = "/repo.git" + rest
		return false
	})
	gittest.Run(t, dir, "config", "url."+v.URL+"/.insteadOf", os.Getenv("TMPDIR")+"/")
	s.commit("file.txt", "three\n")
	before := gittest.Run(t, dir, "rev-parse", "HEAD")
	fails(t, o, "configuration leads a fetch elsewhere")
	if got := gittest.Run(t, dir, "rev-parse", "HEAD"); got != before {
		t.Errorf("HEAD is %s", got)
	}
}

func TestRedirectOnTheSameServerIsFollowedAndNoOther(t *testing.T) {
	s, v, o := private(t)
	var got []string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("Authorization"))
		http.Redirect(w, r, v.URL+r.URL.Path+"?"+r.URL.RawQuery, http.StatusFound)
	}))
	defer other.Close()
	to := ""
	v.intercept(func(w http.ResponseWriter, r *http.Request) bool {
		rest, ok := strings.CutPrefix(r.URL.Path, "/renamed")
		if ok {
			http.Redirect(w, r, to+"/repo.git"+rest+"?"+r.URL.RawQuery, http.StatusMovedPermanently)
		}
		return ok
	})
	o.URL, to = v.URL+"/renamed", other.URL
	fails(t, o, "the server redirects to "+other.URL+", which does not get the credentials")
	if len(got) > 0 {
		t.Errorf("the other server got %q", got)
	}
	to = v.URL
	if result := run(t, o); result.Commit != s.id("main") {
		t.Errorf("got %+v", result)
	}
	third := s.commit("file.txt", "three\n")
	if result := run(t, o); result.Commit != third {
		t.Errorf("got %+v", result)
	}
}
