// Package harness has what the tests of this folder and of test/e2e/disrupt share:
// a connection that can be cut, calls in the middle of which a fault strikes,
// servers in sandboxes, and short names for common steps.
package harness

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
	"github.com/podagent/podagent/pkg/podapi"
)

// Hung is when a test gives up: after this time something will never end, even on a
// busy machine. It is the only time limit by which a test fails.
const Hung = 5 * time.Minute

// pollPeriod is how often [Await] checks.
const pollPeriod = 100 * time.Millisecond

// Await polls until ok returns true, and fails the test after [Hung].
func Await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(Hung); time.Now().Before(deadline); time.Sleep(pollPeriod) {
		if ok() {
			return
		}
	}
	t.Fatalf("%s did not happen within %v", what, Hung)
}

// NoHeartbeats selects the Leases that are not of heartbeats, which end with no pod.
var NoHeartbeats = metav1.ListOptions{LabelSelector: "!" + podmeta.LabelHeartbeats}

// Launch launches a sandbox that is closed when the test ends.
func Launch(t *testing.T, l launcher.Launcher, spec launcher.Spec) *launcher.Sandbox {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Hung)
	defer cancel()
	s, err := l.Launch(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// Run runs a script and returns its outputs and status.
func Run(t *testing.T, s *launcher.Sandbox, script string, change func(*podapi.Cmd)) (stdout, stderr string, status podapi.ExitStatus) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Hung)
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
	return out.String(), errOut.String(), *cmd.Process.Status()
}

// IsLost reports whether a sandbox or its agent was lost, as the error says.
func IsLost(err error) bool {
	return errors.Is(err, launcher.ErrGone) || errors.Is(err, launcher.ErrStale) || IsCut(err)
}

// IsCut reports whether err comes from a call whose connection or agent was lost.
func IsCut(err error) bool {
	return errors.Is(err, podapi.ErrUnavailable) || errors.Is(err, podapi.ErrCut)
}
