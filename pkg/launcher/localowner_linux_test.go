package launcher_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

func TestLocalRefusesAStateDirectoryOfAnotherUser(t *testing.T) {
	l := launchertest.Local(t)
	l.StateDir = filepath.Join(l.StateDir, "theirs")
	if err := os.MkdirAll(l.StateDir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(l.StateDir, 12345, 12345); err != nil {
		t.Fatalf("this test needs root: %v", err)
	}
	if _, err := l.Launch(t.Context(), launcher.Spec{ID: "a"}); err == nil || !strings.Contains(err.Error(), "it belongs to user 12345") {
		t.Errorf("got %v", err)
	}
	if left, err := os.ReadDir(l.StateDir); err != nil || len(left) > 0 {
		t.Errorf("left is %v, %v", left, err)
	}
}

// A program that listens in place of the agent would get the environment, the files and the
// login of the sandbox.
func TestLocalRefusesAnAgentOfAnotherUser(t *testing.T) {
	l := launchertest.Local(t)
	launch(t, l, launcher.Spec{ID: "a"})
	socket := filepath.Join(sandboxDir(t, l), "agent.sock")
	theirs := listenAsNobody(t)
	if err := os.Rename(socket, socket+".own"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Rename(socket+".own", socket); err != nil {
			t.Error(err)
		}
	})
	if err := os.Symlink(theirs, socket); err != nil {
		t.Fatal(err)
	}
	_, opened := l.Open(t.Context(), "a")
	_, launched := l.Launch(t.Context(), launcher.Spec{ID: "a", Env: []string{"A=secret"}})
	_, listed := l.List(t.Context())
	for what, err := range map[string]error{
		"Open": opened, "Launch": launched, "List": listed, "Terminate": l.Terminate(t.Context(), "a"),
	} {
		if err == nil || !strings.Contains(err.Error(), "user 65534 listens in place of its agent") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// listenAsNobody returns the path of a socket at which a user without any rights listens.
func listenAsNobody(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "theirs") // the kernel takes paths of 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "s")
	asNobody(t, func() {
		listener, err := net.Listen("unix", path)
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { listener.Close() })
	})
	if t.Failed() {
		t.FailNow()
	}
	return path
}
