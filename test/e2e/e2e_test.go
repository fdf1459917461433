// Package e2e holds the end-to-end tests: what users are promised, over real
// sandboxes, through the library. Each test runs over every launcher.
package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi"
)

// hung is when a test gives up: whatever takes so long never ends.
const hung = 2 * time.Minute

// overEach runs a test over a sandbox of each launcher.
func overEach(t *testing.T, test func(t *testing.T, s *launcher.Sandbox)) {
	overEachLauncher(t, func(t *testing.T, l launcher.Launcher, spec launcher.Spec) {
		s, err := l.Launch(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		test(t, s)
	})
}

// overEachLauncher runs a test over each launcher, with what it needs to be in
// a Spec.
func overEachLauncher(t *testing.T, test func(t *testing.T, l launcher.Launcher, spec launcher.Spec)) {
	t.Run("local", func(t *testing.T) { test(t, launchertest.Local(t), launcher.Spec{ID: t.Name()}) })
	t.Run("kubernetes", func(t *testing.T) {
		c := launchertest.NewCluster(t, launcher.Restricted)
		test(t, c.Launcher(), c.Spec(t.Name()))
	})
}

// launch launches a sandbox that is closed when the test ends.
func launch(t *testing.T, l launcher.Launcher, spec launcher.Spec) *launcher.Sandbox {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	s, err := l.Launch(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// put writes a file, and get reads one.
func put(t *testing.T, s *launcher.Sandbox, name, content string) {
	t.Helper()
	if _, err := s.WriteFile(t.Context(), name, []byte(content), fsops.WriteOptions{Parents: true}); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, s *launcher.Sandbox, name string) string {
	t.Helper()
	data, err := s.ReadFile(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// names lists what is in a directory.
func names(t *testing.T, s *launcher.Sandbox, dir string) []string {
	t.Helper()
	list := []string{}
	for attr, err := range s.List(t.Context(), dir, fsops.ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, filepath.Base(attr.Path))
	}
	return list
}

// pattern yields size bytes that do not repeat within any chunk, the same for
// the same seed, with every value a byte can have.
func pattern(size int64, seed uint64) io.Reader {
	var key [32]byte
	key[0], key[1] = byte(seed), byte(seed>>8)
	return io.LimitReader(rand.NewChaCha8(key), size)
}

// sha returns the SHA-256 of a reader's content, and its size.
func sha(t *testing.T, r io.Reader) (string, int64) {
	t.Helper()
	h := sha256.New()
	n, err := io.Copy(h, r)
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(h.Sum(nil)), n
}

// run runs a script and returns its outputs and status.
func run(t *testing.T, s *launcher.Sandbox, script string, change func(*podapi.Cmd)) (stdout, stderr string, status podapi.ExitStatus) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	cmd := s.Shell(ctx, script)
	var out, errOut strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if change != nil {
		change(cmd)
	}
	err := cmd.Run()
	if exit := (*podapi.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v", script, err)
	}
	return out.String(), errOut.String(), *cmd.Status()
}

// agentPID returns the process id of a local sandbox's agent.
func agentPID(t *testing.T, s *launcher.Sandbox) int {
	t.Helper()
	out, _, _ := run(t, s, "echo $PPID", nil)
	pid, err := strconv.Atoi(strings.TrimSpace(out))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// peakMemory returns the most memory that a sandbox's agent ever had resident,
// bytes.
func peakMemory(t *testing.T, s *launcher.Sandbox) int64 {
	t.Helper()
	status, _, _ := run(t, s, "cat /proc/$PPID/status", nil)
	for line := range strings.Lines(status) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kb << 10
		}
	}
	t.Fatalf("no VmHWM in %q", status)
	return 0
}

// killAgent ends an agent as a crash would.
func killAgent(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}
