package launcher_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi/isolation"
)

// swap exchanges two names of a directory again and again: one leads outside. It says when it has begun.
const swap = `import ctypes, sys
libc = ctypes.CDLL(None)
def exchange(): libc.renameat2(-100, sys.argv[1].encode(), -100, sys.argv[2].encode(), 2)
exchange()
print("begun", flush=True)
while True: exchange()`

// swapped starts to exchange names in a sandbox, which ends with the test.
func swapped(t *testing.T, s *launcher.Sandbox, one, other string) {
	t.Helper()
	cmd := s.Command(t.Context(), "python3", "-c", swap, one, other)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		_, err = bufio.NewReader(out).ReadString('\n')
	}
	if err != nil {
		t.Fatal(err)
	}
}

// raceTime is how long calls race with commands at each level.
const raceTime = 500 * time.Millisecond

// A directory of the sandbox becomes a symbolic link outward, and a directory again, all the time, while calls
// read, search, write and remove what is below it. Without isolation that leads them outside.
func TestRacesOfLinksWithCallsLeadNowhere(t *testing.T) {
	for _, level := range []isolation.Mode{isolation.Off, isolation.Mode(isolation.Namespaces), isolation.Mode(isolation.Landlock)} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			l := launchertest.Local(t)
			l.Isolation = level
			s := launch(t, l, launcher.Spec{ID: "a"})
			outside := placeOfSecret(t)
			output(t, s, `mkdir here && echo inside >here/key && ln -s "`+outside+`" there`)
			swapped(t, s, "here", "there")
			led := raceCalls(t.Context(), s, outside, level == isolation.Off)
			if led == "" == (level == isolation.Off) {
				t.Errorf("the calls led outside: %q", led)
			}
		})
	}
}

// placeOfSecret makes a directory outside with a secret. It is not below /tmp, which a sandbox may have of its own.
func placeOfSecret(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "podagent-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for _, name := range []string{"key", "theirs"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// raceCalls calls until raceTime is over, or with wait until something is led outside. It returns what that was.
func raceCalls(ctx context.Context, s *launcher.Sandbox, outside string, wait bool) (led string) {
	for end := time.Now().Add(raceTime); led == "" && ctx.Err() == nil && (wait || time.Now().Before(end)); {
		if data, err := s.ReadFile(ctx, "here/key"); err == nil && string(data) == "secret" {
			return "a read"
		}
		for r, err := range s.Grep(ctx, "secret", fsops.GrepOptions{Paths: []string{"here"}, Follow: true}) {
			if err == nil && strings.Contains(string(r.Text), "secret") {
				return "a search"
			}
		}
		for name := range s.Glob(ctx, "here/*", fsops.GlobOptions{}) {
			if name.Path == "here/theirs" {
				return "a pattern"
			}
		}
		_ = s.WriteFile(ctx, "here/new", []byte("x"), 0o600)
		_ = s.Rename(ctx, "here/key", "here/renamed")
		_ = s.Rename(ctx, "here/renamed", "here/key")
		_ = s.RemoveAll(ctx, "here/sub")
		led = changed(outside)
	}
	return led
}

// changed says what is not as [placeOfSecret] has made it.
func changed(dir string) string {
	entries, err := os.ReadDir(dir)
	data, readErr := os.ReadFile(filepath.Join(dir, "key"))
	switch {
	case err != nil || len(entries) != 2:
		return "a change of names"
	case errors.Is(readErr, os.ErrNotExist) || string(data) != "secret":
		return "a change of a file"
	}
	return ""
}

// While its agent is down, a sandbox has links in the place of what is mounted when the next one starts: the
// system's programs stay what they are, and so does what is outside.
func TestLinksToTheSystemAreNoPlacesOfMounts(t *testing.T) {
	l := launchertest.Local(t)
	l.Isolation = isolation.Mode(isolation.Namespaces)
	dir, err := os.MkdirTemp("/var/tmp", "podagent-test-") // a place in the sandbox's own one
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := launch(t, l, launcher.Spec{ID: "a", Workdir: filepath.Join(dir, "bin")})
	output(t, s, `printf '#!/bin/sh\necho taken' >git; chmod +x git`)
	// The place is what is mounted upon, so that only the next agent can be led by it.
	temp := filepath.Join(filepath.Dir(sandboxFile(t, l)), "tmp")
	place := filepath.Join(temp, filepath.Base(dir))
	if err := errors.Join(os.RemoveAll(place), os.Symlink("../../usr", place)); err != nil {
		t.Fatal(err)
	}
	killAgents(t, l)
	if again, err := l.Launch(t.Context(), launcher.Spec{ID: "a"}); err == nil {
		defer again.Close()
		if out, err := again.Command(t.Context(), "git", "--version").CombinedOutput(); err != nil || !strings.Contains(string(out), "git version") {
			t.Errorf("git is another program: %s, %v", out, err)
		}
	}
}

// What a sandbox puts in the way of its view leads the agent that starts next nowhere else.
func TestLinksOfASandboxLeadItsAgentNowhere(t *testing.T) {
	eachIsolation(t, func(t *testing.T, l *launcher.Local) {
		victim, err := os.MkdirTemp("/var/tmp", "podagent-test-") // not below the same directory as the workspace
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(victim) })
		workdir := t.TempDir()
		if err := os.WriteFile(filepath.Join(victim, "key"), []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
		l.Readable = []string{filepath.Join(workdir, "sub")}
		if err := os.Mkdir(l.Readable[0], 0o700); err != nil {
			t.Fatal(err)
		}
		s := launch(t, l, launcher.Spec{ID: "a", Workdir: workdir})
		// At the level namespaces, the view's own paths are below the sandbox's /tmp in this test.
		_ = s.Command(t.Context(), "sh", "-c", `rm -rf sub; ln -s "$0" sub; cd /tmp && for f in *; do mv $f .$f && ln -s "$0" $f; done`, victim).Run()
		killAgents(t, l)
		if again, err := l.Launch(t.Context(), launcher.Spec{ID: "a"}); err == nil {
			defer again.Close()
			if out, err := again.Command(t.Context(), "cat", filepath.Join(workdir, "sub", "key")).Output(); err == nil {
				t.Errorf("a command reads %q", out)
			}
		}
		if entries, err := os.ReadDir(victim); err != nil || len(entries) != 1 {
			t.Errorf("outside there is %v, %v", entries, err)
		}
	})
}

// sandboxFile returns the record of the one sandbox of a launcher.
func sandboxFile(t *testing.T, l *launcher.Local) string {
	t.Helper()
	records, err := filepath.Glob(filepath.Join(l.StateDir, "*", "sandbox.json"))
	if err != nil || len(records) != 1 {
		t.Fatalf("%q, %v", records, err)
	}
	return records[0]
}
