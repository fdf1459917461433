package disrupt

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// bombTime is how long a fork bomb runs at first. It takes all processes within a
// second or two, but longer on a busy machine.
const bombTime = 8 * time.Second

// Two thousand forking processes slow down everything else on the machine.
func TestForkBombEndsByItsTimeoutAndTheAgentAnswersMeanwhile(t *testing.T) {
	c := launchertest.NewCluster(t, launcher.Restricted)
	s := harness.Launch(t, c.Launcher(), c.Spec(t.Name()))
	for name, args := range map[string][]string{
		// When bash cannot fork, it waits and tries again.
		"in its group": {"bash", "-c", "bomb() { [ $SECONDS -lt 300 ] && bomb | bomb & }; bomb; read -r line"},
		"leaving its group": {"perl", "-MPOSIX", "-e", `my $end = time + 600; while (time < $end) {
			my $pid = fork;
			if (!defined $pid) { select undef, undef, undef, 0.5 } elsif (!$pid) { setsid }
		}`},
	} {
		t.Run(name, func(t *testing.T) {
			harness.Beside(t, s, func(ctx context.Context) { rage(ctx, t, s, args) })
			if out, _, status := harness.Run(t, s, "echo next; exit 5", nil); out != "next\n" || status.Code != 5 || status.ProcessLimit {
				t.Errorf("the next command printed %q and ended with %+v", out, status)
			}
		})
	}
}

// rage runs a fork bomb until it has taken all processes, each time for longer.
func rage(ctx context.Context, t *testing.T, s *launcher.Sandbox, args []string) {
	for limit := bombTime; !rageFor(ctx, t, s, args, limit) && !t.Failed() && ctx.Err() == nil; limit *= 2 {
		t.Logf("the bomb did not take all processes in %v", limit)
	}
}

// rageFor runs a fork bomb until it times out and checks how it ended. It reports
// whether the bomb took all processes.
func rageFor(ctx context.Context, t *testing.T, s *launcher.Sandbox, args []string, limit time.Duration) (refused bool) {
	bomb := s.Command(ctx, args[0], args[1:]...)
	bomb.Timeout = limit
	stdin, err := bomb.StdinPipe()
	if err == nil {
		err = bomb.Start()
	}
	if err != nil {
		t.Error(err)
		return false
	}
	defer stdin.Close()
	ended := make(chan error, 1)
	go func() { ended <- bomb.Wait() }()
	for !refused && len(ended) == 0 {
		err := s.Command(ctx, "true").Run()
		refused = errors.Is(err, syscall.EAGAIN)
		if err != nil && !refused {
			t.Errorf("a command beside the bomb: %v", err)
			break
		}
	}
	err = <-ended
	if status := bomb.Process.Status(); status == nil || status.Reason != podapi.TimedOut || refused && !status.ProcessLimit {
		t.Errorf("the bomb ended with %v, %+v", err, status)
	}
	return refused
}
