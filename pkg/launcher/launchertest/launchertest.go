// Package launchertest makes real sandboxes for tests, with the local launcher or in
// a cluster. It builds podagent from the source of this module, with the race detector
// if the test uses it. It needs the go command, and runs only on Linux.
package launchertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi/isolation"
)

// Local returns a launcher with its own state directory, whose sandboxes nothing isolates: tests look
// into them, and start faster. When the test ends, all its
// sandboxes are terminated. Under the race detector, the test fails if an agent had a
// data race.
func Local(t testing.TB) *launcher.Local {
	t.Helper()
	logs := t.TempDir()
	agent, err := agentThatLogs(logs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := raceIn(logs); err != nil {
			t.Error(err)
		}
	})
	l := &launcher.Local{StateDir: filepath.Join(t.TempDir(), "state"), Agent: agent, Isolation: isolation.Off}
	t.Cleanup(func() {
		if err := terminateAll(l); err != nil {
			t.Error(err)
		}
	})
	return l
}

// Main runs the tests and examples of a program, for TestMain, and returns the exit
// code. In them, the zero [launcher.Local] works: it finds podagent, and has its own
// state directory.
func Main(m *testing.M) int {
	code, err := runWithAgent(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func runWithAgent(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "podagent-test-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	agent, err := agentThatLogs(dir)
	if err != nil {
		return 0, err
	}
	os.Setenv("PODAGENT_BIN", agent)
	os.Setenv("XDG_STATE_HOME", filepath.Join(dir, "state"))
	code = m.Run()
	return code, errors.Join(terminateAll(&launcher.Local{}), raceIn(dir))
}

func terminateAll(l *launcher.Local) error {
	list, err := l.List(context.Background())
	for _, s := range list {
		err = errors.Join(err, l.Terminate(context.Background(), s.ID))
	}
	return err
}

// Sandbox returns a new sandbox, which ends with the test.
func Sandbox(t testing.TB) *launcher.Sandbox {
	t.Helper()
	sandbox, err := Local(t).Launch(t.Context(), launcher.Spec{ID: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sandbox.Close() })
	return sandbox
}
