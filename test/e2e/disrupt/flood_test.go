package disrupt

// Floods of connections from another pod. Those from inside the sandbox are in
// cmd/podagent.

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// maxFloodedMemory bounds what an agent uses in any flood, in bytes.
const maxFloodedMemory = 128 << 20

// A flood opens many connections or streams, and leaves them open. For the latter two
// kinds it has the identity, as an orchestrator has that forgets what it has opened.
func TestFloodFromAnotherPodLeavesRoomForOrchestrators(t *testing.T) {
	for _, tt := range []struct {
		kind   string
		number int
	}{
		{"half-open handshakes", 12_000},
		{"health streams", 40_000},
		{"idle connections", 5000},
	} {
		t.Run(tt.kind, func(t *testing.T) { testFlood(t, tt.kind, tt.number) })
	}
}

func testFlood(t *testing.T, kind string, number int) {
	c := launchertest.OwnCluster(t, launcher.Restricted).By(t, launcher.ByAddress)
	spec := c.Spec("victim")
	spec.Pod.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")}
	victim := harness.Launch(t, c.Launcher(), spec)
	boot := harness.BootOf(t, victim)
	other := harness.Launch(t, c.Launcher(), c.Spec("other"))
	harness.PutProgram(t, other, "intruder")
	to := addressOf(t, c, victim)
	admit(t, c, other, to)
	callers := callersOf(t, c, victim.ID)
	f := startFlood(t, other, c.Identity, kind, number, to)
	var all sync.WaitGroup
	for _, caller := range callers {
		all.Go(func() { caller.callUntil(t, f.through) })
	}
	all.Wait()
	if t.Failed() {
		return
	}
	t.Logf("in %v the flood reached the agent %d times", f.took.Round(time.Millisecond), f.reached)
	if f.reached < number/2 {
		t.Errorf("it reached the agent %d times of %d", f.reached, number)
	}
	peak := harness.PeakMemory(t, victim)
	if t.Logf("the agent used up to %d MiB", peak>>20); peak > maxFloodedMemory {
		t.Errorf("the agent used up to %d MiB, want at most %d", peak>>20, maxFloodedMemory>>20)
	}
	if harness.BootOf(t, victim) != boot {
		t.Error("the agent was restarted")
	}
}

// addressOf returns the address of a sandbox's pod.
func addressOf(t *testing.T, c *launchertest.Cluster, s *launcher.Sandbox) string {
	t.Helper()
	pod, err := c.API(t).CoreV1().Pods(c.Namespace).Get(t.Context(), s.PodName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod.Status.PodIP
}

// admit has the policies of deploy/ keep other pods away from sandboxes, and let this one
// through as an orchestrator.
func admit(t *testing.T, c *launchertest.Cluster, other *launcher.Sandbox, to string) {
	t.Helper()
	for _, policy := range []string{"networkpolicy.yaml", "networkpolicy-address.yaml"} {
		if err := c.Apply(t.Context(), "../../../deploy/"+policy); err != nil {
			t.Fatal(err)
		}
	}
	reaches := func() bool {
		_, _, status := harness.Run(t, other, "exec timeout 60 bash -c 'exec 3<>/dev/tcp/"+to+"/7463'", nil)
		return status.Success()
	}
	harness.Await(t, "the policies' refusal", func() bool { return !reaches() })
	harness.Label(t, c, other, "podagent.dev/orchestrator", "true")
	harness.Await(t, "the connection of "+other.ID, reaches)
}

// A caller is an orchestrator that has commands executed during a flood.
type caller struct {
	what string
	call func(context.Context) error
}

// callersOf returns, for each way to a sandbox that a flood may block, an orchestrator that
// is connected, and one that connects for each call.
func callersOf(t *testing.T, c *launchertest.Cluster, id string) (callers []caller) {
	t.Helper()
	for _, way := range []launcher.Connection{launcher.ByAddress, launcher.ByPortForward} {
		by := c.By(t, way)
		connected, err := by.Launcher().Open(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { connected.Close() })
		callers = append(callers,
			caller{string(way) + ", connected", func(ctx context.Context) error { return connected.Command(ctx, "true").Run() }},
			caller{string(way) + ", anew", func(ctx context.Context) error { return openAndExec(ctx, by.Launcher(), id) }})
	}
	return callers
}

func openAndExec(ctx context.Context, l *launcher.Kubernetes, id string) error {
	s, err := l.Open(ctx, id)
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Command(ctx, "true").Run()
}

// moreCalls is how many calls must be answered while a flood has all open that it wants,
// and opens the rest again.
const moreCalls = 3

// callUntil calls until the flood is through, and some times more. It logs how long the
// slowest call took.
func (c caller) callUntil(t *testing.T, through <-chan struct{}) {
	slowest := time.Duration(0)
	for times, more := 1, 0; ; times++ {
		select {
		case <-through:
			more++
		default:
		}
		began := time.Now()
		tries, err := c.answered(t.Context())
		if err != nil {
			t.Errorf("%s: no answer in %v, by %d tries: %v", c.what, time.Since(began), tries, err)
			return
		}
		if tries > 1 {
			t.Logf("%s: a call took %d tries", c.what, tries)
		}
		if slowest = max(slowest, time.Since(began)); more == moreCalls {
			t.Logf("%s: %d calls, the slowest took %v", c.what, times, slowest.Round(time.Millisecond))
			return
		}
	}
}

// answered tries until a call is answered, or the agent counts as hung.
func (c caller) answered(ctx context.Context) (tries int, err error) {
	ctx, cancel := context.WithTimeout(ctx, harness.Hung)
	defer cancel()
	for tries = 1; ; tries++ {
		if err = c.call(ctx); err == nil || ctx.Err() != nil {
			return tries, err
		}
	}
}

// A flood is one that has begun.
type flood struct {
	through chan struct{} // closed when it has opened all, and the rest is known
	reached int           // how often it has reached the agent
	took    time.Duration
}

// startFlood begins a flood of the agent at an address, from the intruder in a sandbox. It
// lasts until the test ends.
func startFlood(t *testing.T, from *launcher.Sandbox, identity podapi.Identity, kind string, number int, to string) *flood {
	t.Helper()
	secret, err := identity.MarshalPEM()
	if err != nil {
		t.Fatal(err)
	}
	cmd := from.Command(t.Context(), "./intruder", "flood", kind, fmt.Sprint(number), to)
	cmd.Stdin, cmd.Timeout = bytes.NewReader(secret), 3*harness.Hung
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	f, began := &flood{through: make(chan struct{})}, time.Now()
	go func() {
		defer close(f.through)
		f.reached, f.took = firstNumber(out), time.Since(began)
	}()
	return f
}

// firstNumber returns the number in the first line, 0 if there is none.
func firstNumber(out io.Reader) int {
	line, _ := bufio.NewReader(out).ReadString('\n') // without a line, it broke off
	n, _ := strconv.Atoi(strings.TrimSpace(line))
	return n
}
