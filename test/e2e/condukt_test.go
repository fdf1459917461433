package e2e

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// The tests of this file are the cases that any sandbox implementation must pass,
// and the known faults of implementations that drive a shell.

func glob(t *testing.T, s *launcher.Sandbox, pattern string, opts fsops.GlobOptions) []string {
	t.Helper()
	opts.Sort = fsops.GlobByName
	found := []string{}
	var stats fsops.GlobStats
	opts.Stats = &stats
	for m, err := range s.Glob(t.Context(), pattern, opts) {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, m.Path)
	}
	if stats.Truncated {
		found = append(found, "(truncated)")
	}
	return found
}

// grep returns matches as path:line:text, and then the files that could not be
// searched, as path!.
func grep(t *testing.T, s *launcher.Sandbox, pattern string, opts fsops.GrepOptions) []string {
	t.Helper()
	opts.Sort = true
	found := []string{}
	for r, err := range s.Grep(t.Context(), pattern, opts) {
		if skipped, ok := errors.AsType[*fsops.SkippedError](err); ok {
			for _, err := range skipped.Errs {
				of, _ := errors.AsType[*fs.PathError](err)
				found = append(found, of.Path+"!")
			}
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if r.Kind == fsops.GrepMatch {
			found = append(found, r.Path+":"+strconv.FormatInt(r.Line, 10)+":"+string(r.Text))
		}
	}
	return found
}

func TestCaseTimeoutOfASleepIsKnownWellBeforeItsEnd(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		_, _, status := harness.Run(t, s, "sleep infinity", func(c *podapi.Cmd) { c.Timeout = 500 * time.Millisecond })
		if status.Reason != podapi.TimedOut {
			t.Errorf("%+v", status)
		}
	})
}

func TestCaseGlobOfOneSuffixLeavesOutTheOther(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		for _, name := range []string{"a.txt", "b.md", "c.txt", ".hidden.txt", "sub/d.txt"} {
			harness.Put(t, s, name, "")
		}
		if got := glob(t, s, "*.txt", fsops.GlobOptions{}); !cmp.Equal(got, []string{".hidden.txt", "a.txt", "c.txt"}) {
			t.Errorf("got %q", got)
		}
		if got := glob(t, s, "*.none", fsops.GlobOptions{}); len(got) != 0 {
			t.Errorf("no match gives %q", got)
		}
		if got := glob(t, s, "**/*.txt", fsops.GlobOptions{Limit: 2}); !cmp.Equal(got, []string{".hidden.txt", "a.txt", "(truncated)"}) {
			t.Errorf("with a limit: %q", got)
		}
	})
}

func TestCaseGrepHasPathNumberAndLine(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		harness.Put(t, s, "src/one.go", "alpha\nbeta\nalphabet\n")
		harness.Put(t, s, "two.txt", "no such thing\n")
		if got := grep(t, s, "alpha", fsops.GrepOptions{}); !cmp.Equal(got, []string{"src/one.go:1:alpha", "src/one.go:3:alphabet"}) {
			t.Errorf("got %q", got)
		}
		if got := grep(t, s, "gamma", fsops.GrepOptions{}); len(got) != 0 {
			t.Errorf("no match gives %q", got)
		}
		if got := grep(t, s, "ALPHA$", fsops.GrepOptions{IgnoreCase: true}); !cmp.Equal(got, []string{"src/one.go:1:alpha"}) {
			t.Errorf("ignoring case: %q", got)
		}
	})
}

func TestCaseInvalidRegexIsAnErrorOfItsOwnWithThePosition(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		for _, err := range s.Grep(t.Context(), "good(bad", fsops.GrepOptions{}) {
			var patternErr *fsops.PatternError
			if !errors.As(err, &patternErr) || patternErr.Offset != 4 || !errors.Is(err, syscall.EINVAL) {
				t.Errorf("got %#v", err)
			}
		}
	})
}

func TestCaseSameIDIsTheSameSandbox(t *testing.T) {
	overEachLauncher(t, func(t *testing.T, l launcher.Launcher, spec launcher.Spec) {
		for _, id := range []string{"job-1", "Job/1", "!!!", strings.Repeat("x", 300), "🙂", "123"} {
			spec.ID = id
			one, err := l.Launch(t.Context(), spec)
			if err != nil {
				t.Fatalf("%q: %v", id, err)
			}
			harness.Put(t, one, "file", "of "+id)
			two, err := l.Launch(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			if got := harness.Get(t, two, "file"); got != "of "+id || !one.Created || two.Created {
				t.Errorf("%q: the file has %q; created %v, then %v", id, got, one.Created, two.Created)
			}
			if err := errors.Join(one.Close(), two.Close()); err != nil {
				t.Error(err)
			}
		}
		if list, err := l.List(t.Context()); err != nil || len(list) != 6 {
			t.Errorf("List has %d sandboxes, %v", len(list), err)
		}
	})
}

func TestCaseTerminateRemovesTheSandbox(t *testing.T) {
	overEachLauncher(t, func(t *testing.T, l launcher.Launcher, spec launcher.Spec) {
		spec.ID = "a"
		s, err := l.Launch(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		harness.Put(t, s, "file", "x")
		s.Close()
		for range 2 { // the second time it finds nothing, which is not an error
			if err := l.Terminate(t.Context(), "a"); err != nil {
				t.Error(err)
			}
		}
		if _, err := l.Open(t.Context(), "a"); !errors.Is(err, launcher.ErrNotFound) {
			t.Errorf("Open afterwards: %v", err)
		}
		s, err = l.Launch(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if got := harness.Names(t, s, "."); len(got) > 0 {
			t.Errorf("the new sandbox has %q", got)
		}
	})
}

func TestCaseABadOptionFailsBeforeAnythingIsMade(t *testing.T) {
	overEachLauncher(t, func(t *testing.T, l launcher.Launcher, spec launcher.Spec) {
		for field, bad := range map[string]launcher.Spec{
			"ID":      {ID: "a\x00b"},
			"Workdir": {ID: "a", Workdir: "relative"},
			"Env":     {ID: "a", Env: []string{"NOVALUE"}},
			"OnClose": {ID: "a", OnClose: "later"},
		} {
			_, err := l.Launch(t.Context(), bad)
			var specErr *launcher.SpecError
			if !errors.As(err, &specErr) || specErr.Field != field {
				t.Errorf("%s: %v", field, err)
			}
		}
		if list, err := l.List(t.Context()); err != nil || len(list) > 0 {
			t.Errorf("List has %v, %v", list, err)
		}
	})
}

// Fault 15.
func TestFaultGlobRunsWhatLooksLikeAShellCommand(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		harness.Put(t, s, "with space.txt", "")
		for _, pattern := range []string{
			filepath.Join(s.Workdir, "$(touch "+s.Workdir+"/pwned).txt"), "`touch pwned`", "; touch pwned;*", "$(touch pwned)",
		} {
			if got := glob(t, s, pattern, fsops.GlobOptions{}); len(got) > 0 {
				t.Errorf("%q matches %q", pattern, got)
			}
		}
		if got := harness.Names(t, s, "."); !cmp.Equal(got, []string{"with space.txt"}) {
			t.Errorf("something ran: %q", got)
		}
		if got := glob(t, s, "with space.*", fsops.GlobOptions{}); !cmp.Equal(got, []string{"with space.txt"}) {
			t.Errorf("a pattern with a space matches %q", got)
		}
	})
}

// Fault 16.
func TestFaultGlobFailsOnAMissingPathOrADanglingLink(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		if err := s.Symlink(t.Context(), "nowhere", "dangling"); err != nil {
			t.Fatal(err)
		}
		if got := glob(t, s, "missing/literal", fsops.GlobOptions{}); len(got) > 0 {
			t.Errorf("a missing path matches %q", got)
		}
		if got := glob(t, s, "d*", fsops.GlobOptions{}); !cmp.Equal(got, []string{"dangling"}) {
			t.Errorf("a dangling link: %q", got)
		}
	})
}

// Fault 17.
func TestFaultGrepIsABasicRegexAndLosesResults(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		harness.Put(t, s, "a:b/file:1", "word one\n")
		harness.Put(t, s, ".git/config", "word in git\n")
		harness.Put(t, s, "other", "third\n")
		want := []string{"a:b/file:1:1:word one", "other:1:third"}
		if got := grep(t, s, `w\w+d|third`, fsops.GrepOptions{Hidden: true}); !cmp.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// Fault 17, the last part: one unreadable file.
func TestFaultGrepLosesAllForOneUnreadableFile(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		harness.Put(t, s, "a", "match\n")
		harness.Put(t, s, "c", "match\n")
		// Even root cannot read a dangling link that is named.
		if err := s.Symlink(t.Context(), "nowhere", "b"); err != nil {
			t.Fatal(err)
		}
		got := grep(t, s, "match", fsops.GrepOptions{Paths: []string{"a", "b", "c"}})
		if want := []string{"a:1:match", "c:1:match", "b!"}; !cmp.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// Fault 18.
func TestFaultCommandRunsInTheWrongDirectoryWhenTheWorkdirIsMissing(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		cmd := s.Shell(t.Context(), "touch one\ntouch two")
		cmd.Dir = "missing"
		if err := cmd.Run(); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("got %v", err)
		}
		if got := harness.Names(t, s, "."); len(got) > 0 {
			t.Errorf("the command ran all the same: %q", got)
		}
	})
}

// Fault 19.
func TestFaultExit124IsTakenForATimeoutAndTERMIgnoredForNone(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		_, _, status := harness.Run(t, s, "exit 124", func(c *podapi.Cmd) { c.Timeout = harness.Hung })
		if status.Reason != podapi.Exited || status.Code != 124 {
			t.Errorf("exit 124: %+v", status)
		}
		_, _, status = harness.Run(t, s, `trap "exit 0" TERM; sleep 60 & wait`, func(c *podapi.Cmd) { c.Timeout = 300 * time.Millisecond })
		if status.Reason != podapi.TimedOut {
			t.Errorf("a timeout that is answered with exit 0: %+v", status)
		}
	})
}

// Fault 20.
func TestFaultFileCallsNeedToolsInTheImage(t *testing.T) {
	overEachLauncher(t, func(t *testing.T, l launcher.Launcher, spec launcher.Spec) {
		// Without a PATH, no program in the image can be found.
		spec.Env = []string{"PATH=/nowhere"}
		s, err := l.Launch(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		harness.Put(t, s, "dir/file", "one\ntwo\n")
		if got := harness.Get(t, s, "dir/file"); got != "one\ntwo\n" {
			t.Errorf("read: %q", got)
		}
		if got := glob(t, s, "**/f*", fsops.GlobOptions{}); !cmp.Equal(got, []string{"dir/file"}) {
			t.Errorf("glob: %q", got)
		}
		if got := grep(t, s, "tw", fsops.GrepOptions{}); !cmp.Equal(got, []string{"dir/file:2:two"}) {
			t.Errorf("grep: %q", got)
		}
		if _, err := s.Edit(t.Context(), "dir/file", []fsops.Edit{{Old: []byte("one"), New: []byte("1")}}, fsops.EditOptions{}); err != nil {
			t.Errorf("edit: %v", err)
		}
		dir := t.TempDir()
		if _, err := s.Pull(t.Context(), ".", dir, podapi.TransferOptions{}); err != nil {
			t.Errorf("pull: %v", err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, "dir/file")); err != nil || string(got) != "1\ntwo\n" {
			t.Errorf("pulled %q, %v", got, err)
		}
		if err := s.Command(t.Context(), "ls").Run(); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a command without a PATH: %v", err)
		}
		// A command that is named by its whole path needs nothing else.
		if err := s.Command(t.Context(), "/bin/true").Run(); err != nil {
			t.Errorf("a command by its path: %v", err)
		}
	})
}

// Fault 21.
func TestFaultReadWithAnOffsetTransfersTheWholeFile(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		var content strings.Builder
		for i := range 200_000 {
			content.WriteString("line " + strconv.Itoa(i+1) + "\n")
		}
		harness.Put(t, s, "file", content.String())
		lines, err := s.ReadLines(t.Context(), "file", fsops.LineOptions{First: 100_000, Max: 2})
		if err != nil {
			t.Fatal(err)
		}
		if string(lines.Text) != "line 100000\nline 100001\n" || lines.Total != 200_000 || lines.First != 100_000 || lines.Count != 2 {
			t.Errorf("got %+v", lines)
		}
		var range1 strings.Builder
		r, err := s.Read(t.Context(), "file", &range1, fsops.ReadOptions{Offset: 5, Length: 8})
		if err != nil || range1.String() != "1\nline 2" || r.Sum.Size != 8 || r.Attr.Size != int64(content.Len()) {
			t.Errorf("bytes 5 to 13: %q, %+v, %v", range1.String(), r, err)
		}
	})
}

// Fault 21, the second part: writing in place.
func TestFaultAReaderSeesAHalfWrittenFile(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		old, fresh := strings.Repeat("o", 1<<20), strings.Repeat("n", 1<<20)
		harness.Put(t, s, "file", old)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i := range 20 {
				content := old
				if i%2 == 0 {
					content = fresh
				}
				if err := s.WriteFile(t.Context(), "file", []byte(content), 0o666); err != nil {
					t.Error(err)
				}
			}
		}()
		for running := true; running; {
			select {
			case <-done:
				running = false
			default:
			}
			if got := harness.Get(t, s, "file"); got != old && got != fresh {
				t.Fatalf("read %d bytes that nobody wrote", len(got))
			}
		}
	})
}

// Fault 11: cat on a FIFO hangs forever.
func TestFaultReadOfAFIFOHangs(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		if _, _, status := harness.Run(t, s, "mkfifo fifo", nil); !status.Success() {
			t.Fatal(status)
		}
		if _, err := s.ReadFile(t.Context(), "fifo"); !errors.Is(err, fsops.ErrNotRegular) {
			t.Errorf("got %v", err)
		}
		if got := grep(t, s, "x", fsops.GrepOptions{}); len(got) > 0 {
			t.Errorf("grep finds %q", got)
		}
	})
}

// Fault 13: arguments are limited to 128 KiB.
func TestFaultContentTravelsInArguments(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		script := "# " + strings.Repeat("x", 1<<20) + "\necho done"
		if out, _, status := harness.Run(t, s, script, nil); out != "done\n" || !status.Success() {
			t.Errorf("a script of 1 MiB: %q, %+v", out, status)
		}
		content := strings.Repeat("256 KiB and more ", 20_000)
		harness.Put(t, s, "file", content)
		if got := harness.Get(t, s, "file"); got != content {
			t.Error("the content differs")
		}
	})
}

func TestEnvironmentIsScrubbed(t *testing.T) {
	overEachLauncher(t, func(t *testing.T, l launcher.Launcher, spec launcher.Spec) {
		spec.Env = []string{"GIVEN=yes", "BYTES=\xff"}
		s, err := l.Launch(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		out, _, _ := harness.Run(t, s, "env -0", nil)
		env := strings.Split(strings.TrimRight(out, "\x00"), "\x00")
		for _, want := range []string{"GIVEN=yes", "BYTES=\xff", "TERM=dumb", "PAGER=cat", "GIT_PAGER=cat"} {
			if !slices.Contains(env, want) {
				t.Errorf("%q is missing in %q", want, env)
			}
		}
		for _, v := range env {
			if strings.HasPrefix(v, hostSecret+"=") || strings.HasPrefix(v, "PODAGENT_") && !strings.HasPrefix(v, "PODAGENT_EXEC_ID=") && !strings.HasPrefix(v, "PODAGENT_SANDBOX=") {
				t.Errorf("%q was passed on", v)
			}
		}
	})
}
