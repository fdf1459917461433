//go:build linux

package launcher_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podagent/podagent/internal/gittest"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi"
)

func TestGitSpecsThatAreRefused(t *testing.T) {
	const web = "https://example.com/a.git"
	for _, c := range []struct {
		git         launcher.Git
		field, says string
	}{
		{launcher.Git{}, "Git.URL", "is empty"},
		{launcher.Git{URL: " "}, "Git.URL", "is empty"},
		{launcher.Git{URL: "https://u:hunter2@example.com/a"}, "Git.URL", "use Username and Password"},
		{launcher.Git{URL: "https://hunter2@example.com/a"}, "Git.URL", "use Username and Password"},
		{launcher.Git{URL: "ssh://git:hunter2@example.com/a"}, "Git.URL", "has a password in it"},
		{launcher.Git{URL: "https://u:hunter2@exa mple.com/a"}, "Git.URL", "white space"},
		{launcher.Git{URL: "https://u:hunter2@example.com:x/a"}, "Git.URL", "is not a URL"},
		{launcher.Git{URL: "https:///a"}, "Git.URL", "names no host"},
		{launcher.Git{URL: "ext::sh -c"}, "Git.URL", "white space"},
		{launcher.Git{URL: "ext::sh"}, "Git.URL", `remote helper "ext"`},
		{launcher.Git{URL: "ftp://example.com/a"}, "Git.URL", `protocol "ftp"`},
		{launcher.Git{URL: "--upload-pack=x"}, "Git.URL", "begins with a dash"},
		{launcher.Git{URL: "../a"}, "Git.URL", "is neither a URL"},
		{launcher.Git{URL: web, Ref: "-x"}, "Git.Ref", `"-x" is not`},
		{launcher.Git{URL: web, Ref: " "}, "Git.Ref", "is not the name"},
		{launcher.Git{URL: web, Timeout: -1}, "Git.Timeout", "negative"},
		{launcher.Git{URL: web, Username: "a:b", Password: "x"}, "Git.Username", "colon"},
		{launcher.Git{URL: web, Username: "a"}, "Git.Username", "no Password"},
		{launcher.Git{URL: web, Password: "x\n"}, "Git.Password", "control character"},
		{launcher.Git{URL: "git@example.com:a", Password: "x"}, "Git.Password", "https://"},
	} {
		bad, ok := errors.AsType[*launcher.SpecError](launcher.ValidateGit(&c.git))
		if !ok || bad.Field != c.field || !strings.Contains(bad.Msg, c.says) || strings.Contains(bad.Msg, "hunter2") {
			t.Errorf("%+v: %v", c.git, bad)
		}
	}
	for _, url := range []string{web, "http://example.com:8080/a", "ssh://git@example.com/a", "git@example.com:a/b.git", "host:a", "git://example.com/a", "file:///a", "/a/b"} {
		if err := launcher.ValidateGit(&launcher.Git{URL: url, Ref: "feature/x"}); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestGitRefsAreValidAsGitSaysTheyAre(t *testing.T) {
	for _, ref := range []string{
		"main", "a/b", "v1.0", "@", "a@b", "a@{b", "a..b", "a.", ".a", "a/.b", "a.lock", "a.lock/b", "/a", "a/", "a//b",
		"a b", "a~", "a^", "a:b", "a?", "a*", "a[b", `a\b`, "a\x01", "a\x7f", "ü", "refs/heads/a", "a{", "{a}", "#", "a'b", "$(x)",
	} {
		want := exec.Command("git", "check-ref-format", "--allow-onelevel", ref).Run() == nil
		if got := launcher.GitValidRef(ref); got != want {
			t.Errorf("%q is valid: %v, and git says %v", ref, got, want)
		}
	}
}

// gitServer serves a repository with one file to clients with a password, and
// returns its URL. When hang is not nil, it only answers once that is closed.
func gitServer(t *testing.T, username, password string, hang chan struct{}) (url, work string) {
	t.Helper()
	dir := gittest.Repository(t, "one\n")
	backend := gittest.Handler(t, dir)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if hang != nil {
			<-hang
		}
		if u, p, _ := r.BasicAuth(); u != username || p != password {
			w.Header().Set("Content-Type", "text/plain")
			http.Error(w, "I got "+r.Header.Get("Authorization"), http.StatusForbidden)
			return
		}
		backend.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/r.git", filepath.Join(dir, "work")
}

func commitFile(t *testing.T, work, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(work, "file"), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	gittest.Run(t, work, "add", "-A")
	gittest.Run(t, work, "commit", "-q", "-m", content)
}

// checkOut checks out in a sandbox.
func checkOut(ctx context.Context, t *testing.T, s *launcher.Sandbox, g launcher.Git) (logged string, err error) {
	t.Helper()
	var log bytes.Buffer
	err = launcher.CheckOut(&g, ctx, s, slog.New(slog.NewTextHandler(&log, nil)))
	return log.String(), err
}

func TestGitPutsAPrivateRepositoryIntoTheWorkdirAndKeepsEdits(t *testing.T) {
	url, work := gitServer(t, "me", "hunter2", nil)
	s := launchertest.Sandbox(t)
	g := launcher.Git{URL: url, Username: "me", Password: "hunter2"}
	log, err := checkOut(t.Context(), t, s, g)
	if err != nil || !strings.Contains(log, "checked out") || !strings.Contains(log, "refs/heads/main") {
		t.Fatalf("%v: %s", err, log)
	}
	out, err := s.Shell(t.Context(), "cat file; git status --porcelain --branch; ! grep -r -e hunter2 -e "+base64.StdEncoding.EncodeToString([]byte("me:hunter2"))+" .").CombinedOutput()
	if err != nil || string(out) != "one\n## main...origin/main\n" {
		t.Errorf("%q, %v", out, err)
	}
	if log, err := checkOut(t.Context(), t, s, g); err != nil || log != "" {
		t.Errorf("the second time: %v: %s", err, log)
	}
	if err := s.Shell(t.Context(), "echo mine >file").Run(); err != nil {
		t.Fatal(err)
	}
	commitFile(t, work, "two\n")
	if log, err := checkOut(t.Context(), t, s, g); err != nil || !strings.Contains(log, "level=WARN") || !strings.Contains(log, "uncommitted changes") {
		t.Errorf("%v: %s", err, log)
	}
	if data, err := s.ReadFile(t.Context(), "file"); err != nil || string(data) != "mine\n" {
		t.Errorf("%q, %v", data, err)
	}
}

func TestGitPasswordAloneGoesWithAName(t *testing.T) {
	url, _ := gitServer(t, "x-access-token", "hunter2", nil)
	if _, err := checkOut(t.Context(), t, launchertest.Sandbox(t), launcher.Git{URL: url, Password: "hunter2"}); err != nil {
		t.Error(err)
	}
}

func TestGitErrorsSayWhatGitSaidWithoutSecrets(t *testing.T) {
	url, _ := gitServer(t, "me", "hunter2", nil)
	s := launchertest.Sandbox(t)
	_, err := checkOut(t.Context(), t, s, launcher.Git{URL: url, Username: "me", Password: "hunter3"})
	if failed, ok := errors.AsType[*launcher.GitError](err); !ok || failed.URL != url || failed.Ref != "" || !strings.Contains(failed.Msg, "I got Basic [REDACTED]") || !strings.Contains(failed.Msg, url) {
		t.Errorf("a server that tells: %v", err)
	}
	_, err = checkOut(t.Context(), t, s, launcher.Git{URL: url, Username: "me", Password: "hunter2", Ref: "nowhere"})
	if want := `checking out "nowhere" of ` + url + `: there is no branch, tag or commit "nowhere"`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	_, err = checkOut(t.Context(), t, s, launcher.Git{URL: "/nowhere"})
	if err == nil || !strings.HasPrefix(err.Error(), "checking out /nowhere: fatal: '/nowhere' does not appear to be a git repository") {
		t.Errorf("got %v", err)
	}
	if err := s.Shell(t.Context(), "echo mine >notes").Run(); err != nil {
		t.Fatal(err)
	}
	_, err = checkOut(t.Context(), t, s, launcher.Git{URL: url, Username: "me", Password: "hunter2"})
	if err == nil || !strings.Contains(err.Error(), `neither empty nor the top of a git work tree: there is "notes"`) {
		t.Errorf("got %v", err)
	}
}

func TestGitWithoutTheProgramSaysSo(t *testing.T) {
	l := launchertest.Local(t)
	s := launch(t, l, launcher.Spec{ID: "a", Env: []string{"PATH=/nowhere"}})
	g := launcher.Git{URL: "/x"}
	err := launcher.CheckOut(&g, t.Context(), s, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "there is no git program in the sandbox's PATH") {
		t.Errorf("got %v", err)
	}
}

func TestGitThatTakesTooLongIsEndedAndLeavesNothing(t *testing.T) {
	hang := make(chan struct{})
	url, _ := gitServer(t, "me", "hunter2", hang)
	t.Cleanup(func() { close(hang) }) // before the server is closed, which waits
	tmp := t.TempDir()
	s := launch(t, launchertest.Local(t), launcher.Spec{ID: "a", Env: []string{"TMPDIR=" + tmp}})
	g := launcher.Git{URL: url, Username: "me", Password: "hunter2", Timeout: 300 * time.Millisecond}
	_, err := checkOut(t.Context(), t, s, g)
	if failed, ok := errors.AsType[*launcher.GitError](err); !ok || failed.Msg != "it took longer than 300ms" {
		t.Errorf("got %v", err)
	}
	g.Timeout = 0
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := checkOut(ctx, t, s, g); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	awaitNothing(t, "processes", func() ([]podapi.ProcessInfo, error) { return s.Processes(t.Context()) })
	for _, dir := range []string{tmp, s.Workdir} {
		awaitNothing(t, dir, func() ([]os.DirEntry, error) { return os.ReadDir(dir) })
	}
}

// hung is how long a test waits for something that must happen.
const hung = 2 * time.Minute

// awaitNothing waits until a list is empty.
func awaitNothing[T any](t *testing.T, what string, list func() ([]T, error)) {
	t.Helper()
	for deadline := time.Now().Add(hung); ; time.Sleep(time.Millisecond) {
		left, err := list()
		if err == nil && len(left) == 0 {
			return
		}
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("left of %s: %v, %v", what, left, err)
		}
	}
}
