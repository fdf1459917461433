// Package gittest serves git repositories over HTTP to tests, by git's own server program. It
// promises nothing to other code.
package gittest

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Backend returns the server of the repositories below a directory: clones of all, and pushes where
// http.receivepack says so. It takes no request without a Content-Length, which CGI does not know.
func Backend(dir string) (http.Handler, error) {
	programs, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		return nil, fmt.Errorf("looking for git's programs: %w", err)
	}
	return &cgi.Handler{
		Path:   filepath.Join(strings.TrimSpace(string(programs)), "git-http-backend"),
		Env:    []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1"},
		Stderr: io.Discard, // it logs each file that a client asks for in vain
	}, nil
}

// Handler is [Backend] for a test.
func Handler(t testing.TB, dir string) http.Handler {
	t.Helper()
	handler, err := Backend(dir)
	if err != nil {
		t.Fatal(err)
	}
	return handler
}

// Repository makes a repository r.git with a branch main, on which is one commit with the file
// "file", and returns the directory that r.git is in. It takes pushes over HTTP.
func Repository(t testing.TB, content string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	work := filepath.Join(dir, "work")
	Run(t, dir, "init", "-q", "-b", "main", work)
	if err := os.WriteFile(filepath.Join(work, "file"), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	Run(t, work, "add", "file")
	Run(t, work, "commit", "-q", "-m", "one")
	Run(t, dir, "clone", "-q", "--bare", work, "r.git")
	Run(t, filepath.Join(dir, "r.git"), "config", "http.receivepack", "true")
	return dir
}

// Run runs git in a directory, without the machine's and the user's configuration, and returns its
// output without white space around it.
func Run(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(
		os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.com",
	)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}
