package e2e

// The agent in images that lack it.

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// injected returns the Spec of a sandbox in an image without podagent.
func injected(c *launchertest.Cluster, image string) launcher.Spec {
	spec := c.Spec("a")
	spec.Pod.Image, spec.Pod.AgentImage = image, c.Image
	return spec
}

func TestInjectedAgentServesEveryCall(t *testing.T) {
	t.Parallel()
	for image, programs := range map[string][2][]string{
		"podagent.test/scratch:dev": {{"/alone", "cat"}, {"/alone", "exit", "7"}},
		"podagent.test/busybox:dev": {{"cat"}, {"sh", "-c", "exit 7"}},
	} {
		check := func(t *testing.T, c *launchertest.Cluster, profile launcher.Profile) {
			spec := injected(c, image)
			spec.Pod.Profile = profile
			s := harness.Launch(t, c.Launcher(), spec)
			checkEveryFileCall(t, s)
			checkExec(t, s, programs[0], programs[1])
		}
		t.Run(strings.NewReplacer("/", "-", ":", "-").Replace(image), func(t *testing.T) {
			overEachWay(t, func(t *testing.T, c *launchertest.Cluster) { check(t, c, launcher.Restricted) })
			t.Run("baseline", func(t *testing.T) {
				t.Parallel()
				check(t, launchertest.NewCluster(t, launcher.Baseline), launcher.Baseline)
			})
		})
	}
}

// A pod names the user by number. If it does not, the image's own user runs
// everything.
func TestImagesOwnUserByAPatch(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	spec := injected(c, "podagent.test/scratch:dev")
	spec.Pod.Patch = []byte("spec: {securityContext: {runAsUser: null, runAsGroup: null}}")
	s := harness.Launch(t, c.Launcher(), spec)
	checkEveryFileCall(t, s)
	attr, err := s.Stat(t.Context(), "d/file")
	if err != nil || attr.UID != 4242 {
		t.Errorf("a file is of user %d, %v", attr.UID, err)
	}
	checkExec(t, s, []string{"/alone", "cat"}, []string{"/alone", "exit", "7"})
}

// checkEveryFileCall makes each file call once.
func checkEveryFileCall(t *testing.T, s *launcher.Sandbox) {
	t.Helper()
	ctx := t.Context()
	must := func(what string, err error) {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	harness.Put(t, s, "d/file", "one two\n")
	if got := harness.Get(t, s, "d/file"); got != "one two\n" {
		t.Errorf("it has %q", got)
	}
	_, err := s.Edit(ctx, "d/file", []fsops.Edit{{Old: []byte("two"), New: []byte("three")}}, fsops.EditOptions{})
	must("edit", err)
	_, err = s.Stat(ctx, "d/file")
	must("stat", err)
	must("mkdir", s.Mkdir(ctx, "e", 0o777))
	must("symlink", s.Symlink(ctx, "d/file", "link"))
	must("copy", s.Copy(ctx, "d", "copy", fsops.CopyOptions{Recursive: true}))
	must("rename", s.Rename(ctx, "copy", "moved"))
	must("chmod", s.Chmod(ctx, "moved/file", 0o600))
	if got := harness.Names(t, s, "."); strings.Join(got, " ") != "d e link moved" {
		t.Errorf("the workdir has %q", got)
	}
	found := 0
	for _, err := range s.Grep(ctx, "three", fsops.GrepOptions{}) {
		must("grep", err)
		found++
	}
	for _, err := range s.Glob(ctx, "**/file", fsops.GlobOptions{}) {
		must("glob", err)
		found++
	}
	if found < 4 {
		t.Errorf("grep and glob found %d", found)
	}
	must("remove", s.RemoveAll(ctx, "moved"))
	lines, err := s.ReadLines(ctx, "d/file", fsops.LineOptions{First: 1, Max: 1})
	if err != nil || string(lines.Text) != "one three\n" {
		t.Errorf("its first line is %q, %v", lines.Text, err)
	}
	dir := filepath.Join(t.TempDir(), "pulled")
	_, err = s.Pull(ctx, "d", dir, podapi.TransferOptions{})
	must("pull", err)
	_, err = s.Push(ctx, dir, "pushed", podapi.TransferOptions{})
	must("push", err)
	if got := harness.Get(t, s, "pushed/file"); got != "one three\n" {
		t.Errorf("what came back has %q", got)
	}
	checkWatch(t, s)
}

// checkWatch watches the workdir until a file appears.
func checkWatch(t *testing.T, s *launcher.Sandbox) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), harness.Hung)
	defer cancel()
	ready := func() { harness.Put(t, s, "watched", "") }
	for e, err := range s.Watch(ctx, ".", fsops.WatchOptions{Ready: ready}) {
		switch {
		case err != nil:
			t.Errorf("watch: %v", err)
			return
		case strings.HasSuffix(e.Path, "watched"):
			return
		}
	}
	t.Error("the watch has not seen a file that came")
}

// checkExec runs a command that copies its input, also in a terminal, and one that
// exits with 7. It attaches to the latter, signals it and forgets it.
func checkExec(t *testing.T, s *launcher.Sandbox, cat, exit7 []string) {
	t.Helper()
	cmd := s.Command(t.Context(), cat[0], cat[1:]...)
	cmd.Stdin = io.LimitReader(harness.Pattern(1<<20, 1), 1<<20)
	out, err := cmd.Output()
	got, n := harness.SHA(t, bytes.NewReader(out))
	if want, _ := harness.SHA(t, io.LimitReader(harness.Pattern(1<<20, 1), 1<<20)); err != nil || got != want {
		t.Errorf("%q printed %d bytes that differ from its input: %v", cat, n, err)
	}
	seven := s.Command(t.Context(), exit7[0], exit7[1:]...)
	if exit, ok := seven.Run().(*podapi.ExitError); !ok || exit.Code != 7 {
		t.Errorf("%q: %v", exit7, exit)
	}
	attached, err := s.Attach(t.Context(), seven.ID, podapi.AttachOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if exit, ok := attached.Wait().(*podapi.ExitError); !ok || exit.Code != 7 {
		t.Errorf("%q, when it was attached to: %v", exit7, exit)
	}
	if err := s.Forget(t.Context(), seven.ID); err != nil {
		t.Errorf("forget: %v", err)
	}
	list, err := s.Processes(t.Context())
	if err != nil || slices.ContainsFunc(list, func(p podapi.ProcessInfo) bool { return p.ID == seven.ID }) {
		t.Errorf("afterwards there are %+v, %v", list, err)
	}
	waiting := s.Command(t.Context(), cat[0], cat[1:]...)
	open, end := io.Pipe()
	defer end.Close()
	waiting.Stdin = open
	if err := waiting.Start(); err != nil {
		t.Fatal(err)
	}
	if err := waiting.Process.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("signal: %v", err)
	}
	if exit, ok := waiting.Wait().(*podapi.ExitError); !ok || exit.Signal != int(syscall.SIGTERM) {
		t.Errorf("%q, when it was signalled: %v", cat, exit)
	}
	term := s.Command(t.Context(), cat[0], cat[1:]...)
	term.Terminal, term.Stdin = &podapi.TerminalSize{Rows: 24, Columns: 80}, strings.NewReader("typed\n\x04")
	if out, err := term.Output(); err != nil || !strings.Contains(string(out), "typed") {
		t.Errorf("in a terminal: %q, %v", out, err)
	}
}

// The content of a read-only directory comes from the image, through the podagent
// that was installed beside it.
func TestInjectionWithReadOnlyContent(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	spec := injected(c, "podagent.test/busybox:dev")
	spec.Pod.ReadOnly = []launcher.ReadOnlyDir{{Path: "/workspace/programs", From: "/bin"}}
	s := harness.Launch(t, c.Launcher(), spec)
	if out, errOut, status := harness.Run(t, s, "programs/busybox echo fine; touch programs/x 2>/dev/null || echo refused; touch /.podagent/bin/podagent 2>/dev/null || echo refused", nil); out != "fine\nrefused\nrefused\n" {
		t.Errorf("inside: %q, %q, %+v", out, errOut, status)
	}
}

func TestMainProgramRunsBesideTheAgent(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	spec := injected(c, "podagent.test/scratch:dev")
	spec.Pod.Main = []string{"/alone", "serve", "/workspace/served-$(HOME)"} // it is not a variable
	spec.Pod.IdleTimeout = time.Hour
	k := c.Launcher()
	s := harness.Launch(t, k, spec)
	harness.Await(t, "the main program", func() bool {
		st, err := s.Stat(t.Context(), "served-$(HOME)")
		return err == nil && st.Size > 0
	})
	if got := harness.Get(t, s, "served-$(HOME)"); got != "served by 1000\n" {
		t.Errorf("it wrote %q", got)
	}
	harness.Await(t, "an idle time beside the main program", func() bool {
		info, err := s.Info(t.Context())
		return err == nil && info.Idle > 0
	})
	list, err := s.Processes(t.Context())
	if err != nil || len(list) != 1 || list[0].Status != nil {
		t.Fatalf("the processes: %+v, %v", list, err)
	}
	if err := s.Signal(t.Context(), list[0].ID, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	harness.Await(t, "the container's next start", func() bool {
		status := podOf(t, c, "a").Status.ContainerStatuses
		return len(status) > 0 && status[0].RestartCount == 1 && status[0].State.Running != nil
	})
	harness.Put(t, harness.Launch(t, k, spec), "file", "x")
}

func TestInjectionFromAnImageWithoutPodagentIsSaid(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	spec := injected(c, "podagent.test/scratch:dev")
	spec.Pod.AgentImage = "podagent.test/busybox:dev"
	_, err := c.Launcher().Launch(t.Context(), spec)
	if err == nil || !strings.Contains(err.Error(), "podagent") {
		t.Errorf("Launch: %v", err)
	}
	t.Log(err)
}

// Even if the image has no directory for temporary files, output is kept on disk,
// so that a cut loses nothing.
func TestCutLosesNothingInAnImageWithoutTemporaryFiles(t *testing.T) {
	overEachWay(t, testCutsWithoutTemporaryFiles)
}

func testCutsWithoutTemporaryFiles(t *testing.T, c *launchertest.Cluster) {
	const size = 100 << 20
	w, l := harness.WireTo(t, c)
	s := harness.Launch(t, l, injected(c, "podagent.test/scratch:dev"))
	if _, err := s.Stat(t.Context(), "/tmp"); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("the image has /tmp: %v", err)
	}
	cmd := s.Command(t.Context(), "/alone", "cat")
	cmd.Stdin = harness.Pattern(size, 1)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.New()
	for range 5 {
		if _, err := io.CopyN(sum, out, size/6); err != nil {
			t.Fatal(err)
		}
		w.Reset()
	}
	n, err := io.Copy(sum, out)
	if err != nil || n != size-5*(size/6) {
		t.Errorf("after the last cut come %d bytes, %v", n, err)
	}
	want, _ := harness.SHA(t, harness.Pattern(size, 1))
	if err := cmd.Wait(); err != nil || cmd.Process.Status().Omitted != 0 || hex.EncodeToString(sum.Sum(nil)) != want {
		t.Errorf("it ended with %v, %+v", err, cmd.Process.Status())
	}
}
