// Package launchertest makes sandboxes for tests: real ones, by the local
// launcher, with a podagent that is built from the source of this module. The
// go command must be there. Linux only.
package launchertest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
)

// Local returns a launcher with a state directory of the test's own. When the
// test ends, all its sandboxes are terminated.
func Local(t testing.TB) *launcher.Local {
	t.Helper()
	agent, err := buildAgent()
	if err != nil {
		t.Fatal(err)
	}
	l := &launcher.Local{StateDir: filepath.Join(t.TempDir(), "state"), Agent: agent}
	t.Cleanup(func() { terminateAll(t, l) })
	return l
}

// Main runs a program's tests and examples, in which the zero [launcher.Local]
// works: with podagent, and with a state directory of the program's own. It is
// for TestMain, and returns the exit code.
func Main(m *testing.M) int {
	agent, err := buildAgent()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	state, err := os.MkdirTemp("", "podagent-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(state)
	os.Setenv("PODAGENT_BIN", agent)
	os.Setenv("XDG_STATE_HOME", state)
	code := m.Run()
	l := &launcher.Local{}
	list, err := l.List(context.Background())
	for _, s := range list {
		err = errors.Join(err, l.Terminate(context.Background(), s.ID))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func terminateAll(t testing.TB, l *launcher.Local) {
	list, err := l.List(context.Background())
	if err != nil {
		t.Error(err)
	}
	for _, s := range list {
		if err := l.Terminate(context.Background(), s.ID); err != nil {
			t.Error(err)
		}
	}
}

// Sandbox returns a sandbox of the test's own, which ends with the test.
func Sandbox(t testing.TB) *launcher.Sandbox {
	t.Helper()
	sandbox, err := Local(t).Launch(t.Context(), launcher.Spec{ID: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sandbox.Close() })
	return sandbox
}

// buildAgent builds podagent, once for each test program. The binary stays in
// the user's cache directory, where the next build replaces it.
var buildAgent = sync.OnceValues(func() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "podagent", "launchertest")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	scratch, err := os.MkdirTemp(dir, "build-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(scratch)
	module, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env: %w", err)
	}
	// A name for each module that tests: another may use other source.
	built, path := filepath.Join(scratch, "podagent"), filepath.Join(dir, fmt.Sprintf("podagent-%x", sha256.Sum256(module))[:24])
	cmd := exec.Command("go", "build", "-trimpath", "-tags", "grpcnotrace", "-ldflags", "-s -w", "-o", built, "github.com/podagent/podagent/cmd/podagent")
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0", "GOEXPERIMENT=simd")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building podagent: %w\n%s", err, out)
	}
	// Test programs that run at once replace it by one that is the same.
	return path, os.Rename(built, path)
})
