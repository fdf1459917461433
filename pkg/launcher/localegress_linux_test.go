package launcher_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi/wayout"
)

// connects reports whether a command of the sandbox connects to a port of the loopback.
func connects(t *testing.T, s *launcher.Sandbox, port int) bool {
	t.Helper()
	return s.Command(t.Context(), "bash", "-c", fmt.Sprintf("exec 3<>/dev/tcp/127.0.0.1/%d", port)).Run() == nil
}

// listen returns the port of a server that accepts what comes.
func listen(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().(*net.TCPAddr).Port
}

// An agent that is started again, for whoever opens the sandbox, keeps commands within the same fence.
func TestLocalSandboxKeepsItsFence(t *testing.T) {
	l := launchertest.Local(t)
	named, other := listen(t), listen(t)
	egress := wayout.Config{Mode: wayout.Mode(wayout.Landlock), Require: wayout.Landlock, Ports: []uint16{uint16(named)}}
	s := launch(t, l, launcher.Spec{ID: "a", Egress: egress})
	check := func(s *launcher.Sandbox) {
		t.Helper()
		if s.Egress.Level != wayout.Landlock || !connects(t, s, named) || connects(t, s, other) || len(s.Drift) > 0 {
			t.Errorf("%+v, drift %q", s.Egress, s.Drift)
		}
	}
	check(s)
	signalAgent(t, s, syscall.SIGKILL)
	check(launch(t, l, launcher.Spec{ID: "a"}))
	again := launch(t, l, launcher.Spec{ID: "a", Egress: egress})
	check(again)
	signalAgent(t, again, syscall.SIGKILL)
	opened, err := l.Open(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	check(opened)
}

// A sandbox that is there stays as it is, which is said, and is an error if that is less than required.
func TestLocalSandboxThatLetsMoreOutIsNotTaken(t *testing.T) {
	l := launchertest.Local(t)
	launch(t, l, launcher.Spec{ID: "a"})
	asked := launcher.Spec{ID: "a", Egress: wayout.Config{Mode: wayout.Auto}}
	if s := launch(t, l, asked); len(s.Drift) != 1 || s.Drift[0] != "egress is unset, not auto" {
		t.Errorf("drift %q", s.Drift)
	}
	asked.Egress.Require = wayout.Landlock
	if s, err := l.Launch(t.Context(), asked); !errors.Is(err, launcher.ErrEgress) {
		t.Errorf("launching it: %v, %v", s, err)
	}
	s := launch(t, l, launcher.Spec{ID: "a"})
	if err := s.RequireEgress(t.Context(), wayout.Landlock); !errors.Is(err, launcher.ErrEgress) {
		t.Errorf("requiring it: %v", err)
	}
	if err := s.RequireEgress(t.Context(), wayout.Open); err != nil {
		t.Errorf("requiring nothing: %v", err)
	}
}

// An agent that cannot keep commands in ends before any runs, and nothing stays.
func TestLocalSandboxWithoutWhatItRequiresIsNotMade(t *testing.T) {
	t.Setenv("PODAGENT_CONFINE", "off")
	l := launchertest.Local(t)
	_, err := l.Launch(t.Context(), launcher.Spec{ID: "a", Egress: wayout.Config{Require: wayout.Landlock}})
	if !errors.Is(err, launcher.ErrEgress) || !strings.Contains(err.Error(), "processes could leave the sandbox") {
		t.Errorf("launching it: %v", err)
	}
	if _, err := l.Open(t.Context(), "a"); !errors.Is(err, launcher.ErrNotFound) {
		t.Errorf("opening it: %v", err)
	}
}
