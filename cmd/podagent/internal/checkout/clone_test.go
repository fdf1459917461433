package checkout_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podagent/podagent/cmd/podagent/internal/checkout"
	"github.com/podagent/podagent/internal/gittest"
)

func TestCloneIsWholeAndOnABranchThatTracks(t *testing.T) {
	s, dir := newSource(t), emptyDir(t)
	result := run(t, checkout.Options{Dir: dir, URL: s.bare})
	want := checkout.Result{Commit: s.id("main"), Ref: "refs/heads/main", Changed: true}
	if result != want {
		t.Errorf("got %+v, want %+v", result, want)
	}
	if got := read(t, filepath.Join(dir, "file.txt")) + read(t, filepath.Join(dir, "sub/dir/deep.txt")); got != "two\ndeep\n" {
		t.Errorf("the files are %q", got)
	}
	if got := gittest.Run(t, dir, "status", "--porcelain", "--branch", "--ignored"); got != "## main...origin/main" {
		t.Errorf("the status is %q", got)
	}
	if got := gittest.Run(t, dir, "rev-list", "--count", "HEAD"); got != "2" {
		t.Errorf("there are %s commits", got)
	}
	if got := names(t, dir); got != ".git file.txt sub" {
		t.Errorf("there are %s", got)
	}
	if got := gittest.Run(t, dir, "for-each-ref", "--format=%(refname)"); got != "refs/heads/main\nrefs/remotes/origin/HEAD\nrefs/remotes/origin/main" {
		t.Errorf("the refs are %s", got)
	}
	// To its users it is a clone like any other.
	s.commit("file.txt", "three\n")
	gittest.Run(t, dir, "pull", "-q")
	if got := read(t, filepath.Join(dir, "file.txt")); got != "three\n" {
		t.Errorf("after a pull, file.txt is %q", got)
	}
}

// refKinds makes one ref of each kind, and returns the commit that each names.
func refKinds(t *testing.T, s *source) map[string]string {
	main := s.id("main")
	gittest.Run(t, s.work, "tag", "light", "main~1")
	gittest.Run(t, s.work, "tag", "-a", "-m", "x", "annotated", "main~1")
	gittest.Run(t, s.work, "checkout", "-q", "-b", "feature/x")
	feature := s.commit("file.txt", "feature\n")
	gittest.Run(t, s.work, "checkout", "-q", "--detach", "main")
	write(t, filepath.Join(s.work, "file.txt"), "pull\n")
	gittest.Run(t, s.work, "commit", "-q", "-a", "-m", "pull")
	pull := s.id("HEAD")
	s.publish("light", "annotated", "HEAD:refs/pull/1/head", "main~1:refs/heads/both", "main:refs/tags/both")
	old := s.id("main~1")
	return map[string]string{
		"": main, "HEAD": main, "main": main, "refs/heads/main": main, "feature/x": feature,
		"light": old, "annotated": old, "refs/tags/annotated": old, "both": old,
		old: old, old[:9]: old, strings.ToUpper(feature[:10]): feature,
		"refs/pull/1/head": pull, pull: pull,
	}
}

func TestRefsOfEachKindAreClonedAndFetched(t *testing.T) {
	s := newSource(t)
	kinds := refKinds(t, s)
	v := serve(t, s)
	for ref, want := range kinds {
		t.Run(ref, func(t *testing.T) {
			fresh := emptyDir(t)
			if got := run(t, checkout.Options{Dir: fresh, URL: v.repo(), Ref: ref}); got.Commit != want || gittest.Run(t, fresh, "rev-parse", "HEAD") != want {
				t.Errorf("a clone is at %+v, want %s", got, want)
			}
			// A second run has nothing to do.
			if got := run(t, checkout.Options{Dir: fresh, URL: v.repo(), Ref: ref}); got.Commit != want || got.Changed || got.Kept != "" {
				t.Errorf("the second run: %+v", got)
			}
			// An older work tree, on another branch.
			old := emptyDir(t)
			gittest.Run(t, old, "init", "-q", "-b", "other")
			gittest.Run(t, old, "remote", "add", "origin", v.repo())
			got := run(t, checkout.Options{Dir: old, URL: v.repo(), Ref: ref})
			if got.Commit != want || gittest.Run(t, old, "rev-parse", "HEAD") != want {
				t.Errorf("a fetch is at %+v, want %s", got, want)
			}
			branch := strings.HasPrefix(got.Ref, "refs/heads/")
			if head := gittest.Run(t, old, "rev-parse", "--abbrev-ref", "HEAD"); branch != (head != "HEAD") {
				t.Errorf("HEAD is %s for %s", head, got.Ref)
			}
			if status := gittest.Run(t, old, "status", "--porcelain"); status != "" {
				t.Errorf("the status is %q", status)
			}
		})
	}
}

// Servers that speak version 1 of the protocol do not say which branch HEAD names,
// or say it elsewhere. They refuse commits that no ref names.
func TestOldServersThatRefuseCommitsByTheirID(t *testing.T) {
	s, dir := newSource(t), emptyDir(t)
	v := serve(t, s)
	v.intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		r.Header.Del("Git-Protocol")
		return false
	})
	o := checkout.Options{Dir: dir, URL: v.repo()}
	if got := run(t, o); got.Ref != "refs/heads/main" {
		t.Errorf("got %+v", got)
	}
	third := s.commit("file.txt", "three\n")
	s.commit("file.txt", "four\n")
	o.Ref = third
	if got := run(t, o); got.Commit != third || !got.Changed {
		t.Errorf("got %+v", got)
	}
}

func TestMissingAndMalformedRefs(t *testing.T) {
	s, dir := newSource(t), emptyDir(t)
	for _, ref := range []string{"nowhere", "refs/heads/nowhere", "deadbeef", strings.Repeat("ab", 20)} {
		fails(t, checkout.Options{Dir: dir, URL: s.bare, Ref: ref}, "there is no branch, tag or commit", ref)
	}
	for _, ref := range []string{"-x", "--upload-pack=touch x", "a b", "a..b", "main~1", "@{-1}", "x.lock"} {
		fails(t, checkout.Options{Dir: dir, URL: s.bare, Ref: ref}, "is not the name of a branch, tag or commit")
	}
	gittest.Run(t, s.work, "tag", "tree", "HEAD^{tree}")
	s.publish("tree")
	fails(t, checkout.Options{Dir: dir, URL: s.bare, Ref: "tree"}, "refs/tags/tree is not a commit")
	if got := names(t, dir); got != "" {
		t.Errorf("left in the directory: %s", got)
	}
	run(t, checkout.Options{Dir: dir, URL: s.bare})
	fails(t, checkout.Options{Dir: dir, URL: s.bare, Ref: "nowhere"}, `no branch, tag or commit "nowhere"`)
}

func TestRepositoriesThatCannotBeCheckedOut(t *testing.T) {
	s, dir := newSource(t), emptyDir(t)
	empty := filepath.Join(t.TempDir(), "empty.git")
	gittest.Run(t, "", "init", "-q", "--bare", empty)
	fails(t, checkout.Options{Dir: dir, URL: empty}, "the repository is empty")
	fails(t, checkout.Options{Dir: dir, URL: empty + "x"}, "does not appear to be a git repository")
	fails(t, checkout.Options{Dir: dir, URL: "ext::touch " + dir + "/pwned"}, "'ext' not allowed")
	helpers := t.TempDir()
	write(t, filepath.Join(helpers, "git-remote-hostile"), "#!/bin/sh\ntouch "+dir+"/pwned\n")
	if err := os.Chmod(filepath.Join(helpers, "git-remote-hostile"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", helpers+":"+os.Getenv("PATH"))
	fails(t, checkout.Options{Dir: dir, URL: "hostile::x"}, "'hostile' not allowed")
	fails(t, checkout.Options{Dir: dir, URL: "--upload-pack=touch " + dir + "/pwned"})
	gittest.Run(t, s.bare, "symbolic-ref", "HEAD", "refs/heads/nowhere")
	fails(t, checkout.Options{Dir: dir, URL: s.bare}, "HEAD names no branch")
	if got := names(t, dir); got != "" {
		t.Errorf("left in the directory: %s", got)
	}
}

func TestDirectoryWithOtherFilesIsRefused(t *testing.T) {
	s, dir := newSource(t), emptyDir(t)
	write(t, filepath.Join(dir, "notes.txt"), "mine")
	fails(t, checkout.Options{Dir: dir, URL: s.bare}, "neither empty nor the top of a git work tree", `"notes.txt"`)
	// A surrounding work tree makes no difference.
	gittest.Run(t, filepath.Dir(dir), "init", "-q")
	fails(t, checkout.Options{Dir: dir, URL: s.bare}, "neither empty nor")
	if got := names(t, dir) + read(t, filepath.Join(dir, "notes.txt")); got != "notes.txtmine" {
		t.Errorf("there is %s", got)
	}
}

func TestFreshFileSystemIsEmpty(t *testing.T) {
	s, dir := newSource(t), emptyDir(t)
	if err := os.Mkdir(filepath.Join(dir, "lost+found"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := run(t, checkout.Options{Dir: dir, URL: s.bare}); !got.Changed {
		t.Errorf("got %+v", got)
	}
}

func TestRunsAtOnceMakeOneClone(t *testing.T) {
	s, dir := newSource(t), emptyDir(t)
	var all sync.WaitGroup
	changed := make(chan bool, 8)
	for range cap(changed) {
		all.Go(func() {
			result, err := checkout.Run(t.Context(), inTest(checkout.Options{Dir: dir, URL: s.bare}))
			if err != nil || result.Commit != s.id("main") || result.Kept != "" {
				t.Errorf("%+v, %v", result, err)
			}
			changed <- result.Changed
		})
	}
	all.Wait()
	close(changed)
	n := 0
	for c := range changed {
		if c {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d of them cloned", n)
	}
}

// hang makes a server stop in the middle of a pack until release is called.
func hang(t *testing.T, v *server) (reached chan struct{}, release func()) {
	reached, released := make(chan struct{}), make(chan struct{})
	var once sync.Once
	v.intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost {
			return false
		}
		body := new(bytes.Buffer)
		body.ReadFrom(r.Body)
		if !bytes.Contains(body.Bytes(), []byte("command=fetch")) {
			r.Body = readCloser{body}
			return false
		}
		w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
		w.Write([]byte("000dpackfile\n0010\x01PACK\x00\x00\x00\x02\x00\x00\x00"))
		w.(http.Flusher).Flush()
		once.Do(func() { close(reached) })
		<-released
		return true
	})
	var releasing sync.Once
	release = func() { releasing.Do(func() { close(released); v.intercept(nil) }) }
	t.Cleanup(release)
	return reached, release
}

type readCloser struct{ *bytes.Buffer }

func (readCloser) Close() error { return nil }

func TestKilledCloneIsStartedAgain(t *testing.T) {
	s, dir := newSource(t), emptyDir(t)
	v := serve(t, s)
	reached, release := hang(t, v)
	o := checkout.Options{Dir: dir, URL: v.repo()}
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperVariable+"="+string(text))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-reached
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	if got := names(t, dir); got != ".podagent-clone" {
		t.Errorf("the killed clone left %q", got)
	}
	release()
	// A file that the user adds before the next run is not part of the clone.
	mine := filepath.Join(dir, "mine")
	write(t, mine, "mine")
	fails(t, o, `"mine"`)
	if err := os.Remove(mine); err != nil {
		t.Fatal(err)
	}
	if got := run(t, o); !got.Changed || names(t, dir) != ".git file.txt sub" {
		t.Errorf("got %+v, and %s", got, names(t, dir))
	}
}

func TestCloneThatWasKilledWhileItMovedIsFinished(t *testing.T) {
	s, dir := newSource(t), emptyDir(t)
	o := checkout.Options{Dir: dir, URL: s.bare}
	run(t, o)
	tree := filepath.Join(dir, ".podagent-clone", "tree")
	write(t, filepath.Join(dir, ".podagent-clone", "ready"), "")
	if err := os.MkdirAll(tree, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".git", "sub"} {
		if err := os.Rename(filepath.Join(dir, name), filepath.Join(tree, name)); err != nil {
			t.Fatal(err)
		}
	}
	// A file in the way belongs to the user.
	write(t, filepath.Join(dir, "sub"), "mine")
	fails(t, o, "sub is in the way")
	if err := os.Remove(filepath.Join(dir, "sub")); err != nil {
		t.Fatal(err)
	}
	third := s.commit("file.txt", "three\n")
	if got := run(t, o); got.Commit != third || !got.Changed {
		t.Errorf("got %+v", got)
	}
	// The clone may also be killed while it removes its leftovers.
	write(t, filepath.Join(tree, "x"), "")
	if got := run(t, o); got.Changed || got.Kept != "" {
		t.Errorf("got %+v", got)
	}
	if got := names(t, dir) + gittest.Run(t, dir, "status", "--porcelain"); got != ".git file.txt sub" {
		t.Errorf("there is %s", got)
	}
}

func TestEndOfTheContextEndsTheCloneAndLeavesNothing(t *testing.T) {
	s, dir := newSource(t), emptyDir(t)
	v := serve(t, s)
	v.username, v.password = "u", "p"
	reached, _ := hang(t, v)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-reached
		cancel()
	}()
	ended := make(chan error, 1)
	go func() {
		_, err := checkout.Run(ctx, inTest(checkout.Options{Dir: dir, URL: v.repo(), Username: "u", Password: "p"}))
		ended <- err
	}()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	case <-time.After(hung):
		t.Fatal("it did not end")
	}
	if got := names(t, dir); got != "" {
		t.Errorf("left in the directory: %s", got)
	}
}

func TestWithoutGitTheErrorSaysSo(t *testing.T) {
	dir := emptyDir(t)
	t.Setenv("PATH", t.TempDir())
	if _, err := checkout.Run(t.Context(), inTest(checkout.Options{Dir: dir, URL: "/x"})); !errors.Is(err, checkout.ErrNoGit) {
		t.Errorf("got %v", err)
	}
}
