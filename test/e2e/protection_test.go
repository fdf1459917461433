package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// The tests of this file are about commands that use up a pod's resources. The
// agent beside them must survive.

// launchSmall launches a pod with a memory limit of 256 MiB.
func launchSmall(t *testing.T) *launcher.Sandbox {
	t.Helper()
	c := launchertest.NewCluster(t, launcher.Restricted)
	spec := c.Spec(t.Name())
	spec.Pod.Resources.Requests = corev1.ResourceList{"memory": resource.MustParse("64Mi")}
	spec.Pod.Resources.Limits = corev1.ResourceList{"memory": resource.MustParse("256Mi")}
	return harness.Launch(t, c.Launcher(), spec)
}

// A hog alone takes memory as fast as it can: if the agent is too late for it, the kernel
// ends it. In a tree the kernel would leave the rest. There the agent itself feeds the hog,
// which then is no faster than the agent.
func TestMemoryHogEndsOutOfMemoryAndNothingElseDoes(t *testing.T) {
	t.Parallel()
	s := launchSmall(t)
	for name, args := range map[string][]string{
		"alone":       {"tail", "/dev/zero"},
		"in a tree":   {"sh", "-c", "cat | tail; exit 3"},
		"left behind": {"sh", "-c", "exec 3<&0; setsid tail <&3 & wait; exit 3"},
	} {
		t.Run(name, func(t *testing.T) {
			harness.Beside(t, s, func(ctx context.Context) {
				cmd := s.Command(ctx, args[0], args[1:]...)
				if name != "alone" {
					cmd.Stdin = endlessZeros{}
				}
				err := cmd.Run()
				if status := cmd.Process.Status(); status == nil || status.Reason != podapi.OutOfMemory {
					t.Errorf("the hog ended with %v, %+v", err, status)
				}
			})
		})
	}
}

// endlessZeros is what /dev/zero has.
type endlessZeros struct{}

func (endlessZeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func Test10GBThatNobodyReadsDoNotBlockTheProcessNorTakeThePodsMemory(t *testing.T) {
	t.Parallel()
	const size = 10_000_000_000
	s := launchSmall(t)
	boot := harness.BootOf(t, s)
	ctx := t.Context()
	cmd := s.Shell(ctx, "head -c 10000000000 /dev/zero && echo end >&2")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Detach(); err != nil {
		t.Fatal(err)
	}
	end, err := s.Attach(ctx, cmd.ID, podapi.AttachOptions{NoOutput: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := waitWhileItPrints(t, s, end); err != nil || end.Status().Stdout != size {
		t.Fatalf("the command ended with %v, %+v", err, end.Status())
	}
	kept := process(t, s, cmd.ID).StdoutKept
	var out counter
	late, err := s.Attach(ctx, cmd.ID, podapi.AttachOptions{Stdout: &out})
	if err != nil {
		t.Fatal(err)
	}
	if err := late.Wait(); err != nil || late.Status().Omitted != size-int64(out) || int64(out) != kept {
		t.Errorf("a late reader got %d bytes of %d that were kept: %v, %+v", out, kept, err, late.Status())
	}
	if kept == 0 || kept > 64<<20 {
		t.Errorf("%d bytes were kept, want up to 64 MiB", kept)
	}
	if peak := harness.PeakMemory(t, s); peak > 64<<20 {
		t.Errorf("the agent used up to %d MiB, want at most 64", peak>>20)
	}
	if harness.BootOf(t, s) != boot {
		t.Error("the agent has restarted")
	}
}

// waitWhileItPrints waits for the end of a process. The kernel slows down who writes to
// a busy disk, so only a process that prints nothing at all for long is hung.
func waitWhileItPrints(t *testing.T, s *launcher.Sandbox, p *podapi.Process) error {
	ended := make(chan error, 1)
	go func() { ended <- p.Wait() }()
	for before := int64(0); ; {
		select {
		case err := <-ended:
			return err
		case <-time.After(harness.Hung):
		}
		now := process(t, s, p.ID()).Stdout
		if now == before {
			t.Fatalf("the process hangs after %d bytes", now)
		}
		before = now
	}
}

// counter counts the bytes written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

func TestSignalsOfTheSandboxDoNotEndTheAgent(t *testing.T) {
	t.Parallel()
	for confine, refused := range map[string]bool{"": true, "off": false} {
		t.Run("confined by "+cmp.Or(confine, "default"), func(t *testing.T) {
			t.Parallel()
			c := launchertest.NewCluster(t, launcher.Restricted)
			spec := c.Spec(t.Name())
			spec.Pod.Confine = confine
			testSignalsToTheAgent(t, harness.Launch(t, c.Launcher(), spec), refused)
		})
	}
	t.Run("under gVisor", func(t *testing.T) {
		t.Parallel()
		l, spec := underGVisor(t)
		testSignalsToTheAgent(t, harness.Launch(t, l, spec), true)
	})
}

func testSignalsToTheAgent(t *testing.T, s *launcher.Sandbox, refused bool) {
	boot := harness.BootOf(t, s)
	for _, name := range []string{"HUP", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "SEGV", "SYS", "USR1", "PIPE", "ALRM", "STOP", "KILL"} {
		if _, stderr, status := harness.Run(t, s, "kill -"+name+" 1", nil); status.Success() == refused {
			t.Errorf("%s: %v: %s", name, status, stderr)
		}
	}
	if now := harness.BootOf(t, s); now != boot {
		t.Error("the agent has restarted")
	}
}

// tooSlow is the code of a command that had no time to obey, on a machine that is busy: SIGKILL follows after a second.
const tooSlow = 128 + int(syscall.SIGKILL)

// untilObeyed has sandboxes of their own end commands, which exit with this code if they have the time to obey.
func untilObeyed(t *testing.T, c *launchertest.Cluster, want int, end func(spec launcher.Spec) (code int)) {
	t.Helper()
	tries := 0
	harness.Await(t, "a command that obeys", func() bool {
		tries++
		code := end(c.Spec(fmt.Sprint("sandbox-", tries)))
		if code != want && code != tooSlow {
			t.Fatalf("it ended with %d, want %d", code, want)
		}
		return code == want
	})
}

// TERM reaches all processes. Those that obey have time to do so; the others are
// killed before the node would kill the container.
func TestTERMEndsEverythingInAPodWithinItsGrace(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	untilObeyed(t, c, 7, func(spec launcher.Spec) int {
		s := harness.Launch(t, c.Launcher(), spec)
		obeys := begin(t, s, "trap 'exit 7' TERM; echo; while :; do sleep 0.1; done")
		deaf := begin(t, s, `trap "" TERM; setsid sh -c 'trap "" TERM; echo; while :; do sleep 0.1; done'; sleep infinity`)
		if err := errors.Join(obeys.err, deaf.err); err != nil {
			t.Fatal(err)
		}
		if end := deletedContainer(t, c, s.PodName()); end == nil || end.ExitCode == 128+int32(syscall.SIGKILL) {
			t.Errorf("the container ended with %+v", end)
		}
		return codeOf(t, obeys.cmd)
	})
}

// deletedContainer deletes a pod, and returns how its container ended, if that was seen.
func deletedContainer(t *testing.T, c *launchertest.Cluster, pod string) (end *corev1.ContainerStateTerminated) {
	t.Helper()
	changes, err := c.API(t).CoreV1().Pods(c.Namespace).Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + pod})
	if err != nil {
		t.Fatal(err)
	}
	defer changes.Stop()
	deletePod(t, c, pod)
	for change := range changes.ResultChan() {
		for _, status := range change.Object.(*corev1.Pod).Status.ContainerStatuses {
			end = cmp.Or(status.State.Terminated, end)
		}
		if change.Type == watch.Deleted {
			break
		}
	}
	return end
}

// codeOf waits for the end of a command, and returns its code.
func codeOf(t *testing.T, cmd *podapi.Cmd) int {
	t.Helper()
	err := cmd.Wait()
	exit, ok := errors.AsType[*podapi.ExitError](err)
	if !ok {
		t.Fatalf("it ended with %v", err)
	}
	return exit.Code
}

// Callers learn the results of their commands even when the agent ends.
func TestCallersHearHowCommandsEndWithTheAgent(t *testing.T) {
	overEachWay(t, func(t *testing.T, c *launchertest.Cluster) {
		untilObeyed(t, c, 3, func(spec launcher.Spec) int {
			spec.Pod.Confine = "off" // otherwise the kernel refuses the signal
			s := harness.Launch(t, c.Launcher(), spec)
			obeys := begin(t, s, "trap 'exit 3' TERM; echo; while :; do sleep 0.1; done")
			if obeys.err != nil {
				t.Fatal(obeys.err)
			}
			_ = s.Shell(t.Context(), "kill -TERM 1").Run() // its effect may end this command, too
			return codeOf(t, obeys.cmd)
		})
	})
}
