package e2e

// Floods of connections from another pod. Those from inside the sandbox are in
// cmd/podagent.

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// floods are what another pod can do, often, and how often it does: its container may have
// no more than 20,000 descriptors, and it has 28,000 ports. For the latter two it has the
// identity, as an orchestrator has that forgets what it has opened.
var floods = map[string]int{"half-open handshakes": 18_000, "idle connections": 10_000, "health streams": 100_000}

// maxFloodedMemory bounds what an agent uses in any flood, in bytes.
const maxFloodedMemory = 128 << 20

func TestFloodFromAnotherPodLeavesRoomForOrchestrators(t *testing.T) {
	t.Parallel()
	for kind, number := range floods {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			testFlood(t, launchertest.NewCluster(t, launcher.Restricted).By(t, launcher.ByAddress), kind, number)
		})
	}
}

func testFlood(t *testing.T, c *launchertest.Cluster, kind string, number int) {
	spec := c.Spec("victim")
	spec.Pod.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")}
	victim := harness.Launch(t, c.Launcher(), spec)
	boot := harness.BootOf(t, victim)
	other := intruder{harness.Launch(t, c.Launcher(), c.Spec("other")), nil}
	harness.PutProgram(t, other.s, "intruder")
	admit(t, c, "other", atPod(t, c, "victim", agentPort))
	through := other.flood(t, c, kind, number)
	if reached := execUntil(t, c, through); reached < number/2 {
		t.Errorf("it reached the agent %d times of %d", reached, number)
	}
	peak := peakMemory(t, victim)
	t.Logf("the agent used up to %d MiB", peak>>20)
	if peak > maxFloodedMemory {
		t.Errorf("the agent used up to %d MiB, want at most %d", peak>>20, maxFloodedMemory>>20)
	}
	if harness.BootOf(t, victim) != boot {
		t.Error("the agent was restarted")
	}
}

// execUntil has commands executed, each by another orchestrator, until the flood is through,
// and once more. It returns how often the flood reached the agent.
func execUntil(t *testing.T, c *launchertest.Cluster, through <-chan int) (reached int) {
	t.Helper()
	ways := []*launchertest.Cluster{c, c.By(t, launcher.ByPortForward)}
	began, times, slowest := time.Now(), 0, time.Duration(0)
	for over := false; !over; times++ {
		select {
		case reached = <-through:
			over = true
			t.Logf("after %v the flood has reached the agent %d times", time.Since(began).Round(time.Second), reached)
		default:
		}
		for _, way := range ways {
			slowest = max(slowest, execAnew(t, way, "victim"))
		}
	}
	t.Logf("%d orchestrators each way, the slowest waited %v", times, slowest.Round(time.Millisecond))
	return reached
}

// admit keeps other pods away from sandboxes, except this one as an orchestrator.
func admit(t *testing.T, c *launchertest.Cluster, id string, to target) {
	t.Helper()
	label(t, c, id, "podagent.dev/orchestrator", "true")
	apply(t, c, "networkpolicy-address.yaml")
	apply(t, c, "networkpolicy.yaml")
	s, err := c.Launcher().Open(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	harness.Await(t, "the connection of "+id, func() bool { return reaches(t, s, to) })
}

// flood begins a flood of the victim's agent. When it is through, the channel has how
// often the agent was reached. What is open stays so until the test ends.
func (i intruder) flood(t *testing.T, c *launchertest.Cluster, kind string, number int) <-chan int {
	t.Helper()
	identity, err := c.Identity.MarshalPEM()
	if err != nil {
		t.Fatal(err)
	}
	cmd := i.command(t, identity, "flood", kind, fmt.Sprint(number), podOf(t, c, "victim").Status.PodIP)
	cmd.Timeout = 0
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	through := make(chan int, 1)
	go func() { through <- firstNumber(out) }()
	return through
}

// firstNumber returns the number in the first line, 0 if there is none.
func firstNumber(out io.Reader) int {
	line, _ := bufio.NewReader(out).ReadString('\n') // without a line, it broke off
	n, _ := strconv.Atoi(strings.TrimSpace(line))
	return n
}

// execAnew is an orchestrator that opens a sandbox and has a command executed. It tries
// again if it cannot connect, and returns how long all of it took.
func execAnew(t *testing.T, c *launchertest.Cluster, id string) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), harness.Hung)
	defer cancel()
	began := time.Now()
	for {
		err := openAndExec(ctx, c.Launcher(), id)
		if err == nil {
			return time.Since(began)
		}
		if ctx.Err() != nil {
			t.Fatalf("no orchestrator is answered by %s: %v", c.Connection, err)
		}
	}
}

func openAndExec(ctx context.Context, l *launcher.Kubernetes, id string) error {
	s, err := l.Open(ctx, id)
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Command(ctx, "true").Run()
}
