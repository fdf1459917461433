package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
	"github.com/podagent/podagent/pkg/launcher/pool"
)

// The rounds for creating a sandbox, which takes seconds, and for adopting one.
const (
	createRounds = 10
	adoptRounds  = 20
)

// BenchmarkStart measures the time until a sandbox's first result, on a node that
// has the image: for a new sandbox, in a new pod and in one of a pool, an existing one, and a
// paused one.
func BenchmarkStart(b *testing.B) {
	b.Run("create", benchmarkCreate)
	b.Run("pool", benchmarkPool)
	b.Run("adopt", benchmarkAdopt)
	b.Run("resume", benchmarkResume)
}

func benchmarkCreate(b *testing.B) {
	c := launchertest.NewCluster(b, launcher.Restricted)
	l, pods := c.Launcher(), c.API(b).CoreV1().Pods(c.Namespace)
	var s *launcher.Sandbox
	r := compare(b, "start", "create, to the first exec's result", createRounds,
		side{
			name: "podagent",
			do: func() (err error) {
				s, err = firstExec(b.Context(), l, c.Spec("bench"))
				return err
			},
			after: func() error { return errors.Join(s.Close(), l.Terminate(b.Context(), "bench")) },
		},
		pauseToReady(b, pods),
		createAndExec(b, c, pods),
	)
	r.limit("pause pod + 50 ms", r.median(pauseReady)+50)
}

const pauseReady = "pause pod, to Ready"

// pauseToReady is the floor for a pod with a workspace.
func pauseToReady(b *testing.B, pods corev1client.PodInterface) side {
	var pause *corev1.Pod
	return side{
		name: pauseReady,
		do: func() (err error) {
			pause, err = createPod(b.Context(), pods, pausePod())
			return err
		},
		after: func() error { return removePod(b.Context(), pods, pause) },
	}
}

// createAndExec does what adapters do: it makes a pod that sleeps, and calls exec
// when the pod is Ready.
func createAndExec(b *testing.B, c *launchertest.Cluster, pods corev1client.PodInterface) side {
	var made *corev1.Pod
	return side{
		name: "pod that sleeps, and client-go exec",
		do: func() (err error) {
			pod := pausePod()
			pod.Spec.Containers[0].Image = c.Image
			pod.Spec.Containers[0].Command = []string{"sleep", "infinity"}
			pod.Spec.TerminationGracePeriodSeconds = new(int64(0)) // sleep ignores TERM as PID 1
			if made, err = createPod(b.Context(), pods, pod); err != nil {
				return err
			}
			return execIn(b, c, made.Name, io.Discard, "true")()
		},
		after: func() error { return removePod(b.Context(), pods, made) },
	}
}

// A full pool has so many pods that wait. In each of its rounds so many are taken, one in each
// moment, while the cluster makes the next ones.
const (
	poolSize   = 20
	poolRounds = 6
	poolTaken  = 5
	poolMoment = 200 * time.Millisecond
	poolKept   = 10
)

// benchmarkPool measures the time from a launch to the first result of a command in a pod that
// waited: in one process that keeps connections to some pods, and in a new process each time.
func benchmarkPool(b *testing.B) {
	c := launchertest.NewCluster(b, launcher.Restricted)
	if err := c.Apply(b.Context(), filepath.Join("..", "..", "deploy", "pools-rbac.yaml")); err != nil {
		b.Fatal(err)
	}
	l := c.Launcher()
	l.Identity, l.IdentityFile = nil, filepath.Join(b.TempDir(), "identity.pem") // which the new processes use, too
	if err := errors.Join(pool.Create(b.Context(), l, "warm", poolSize, c.Spec("")), awaitPool(b.Context(), l)); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	var keeping sync.WaitGroup
	keeping.Go(func() { _ = l.KeepWarm(ctx, "warm", poolKept) }) // until ctx ends
	b.Cleanup(func() { cancel(); keeping.Wait() })

	taker := &taker{b: b, c: c, l: l}
	orchestrator := newOrchestrator(b, l, c)
	peer, own, through := newClaimers(b, c)
	compare(b, "start", "take a pod out of a pool, to the first exec's result", poolRounds,
		side{
			name: "podagent", times: poolTaken,
			do: func() error { return taker.take(b.Context()) }, after: taker.next,
		},
		side{
			name: "agent-sandbox, and its sandboxd", times: poolTaken,
			do: func() error { return peer.claimAndExec(b) }, after: peer.next,
		},
		side{
			name: "agent-sandbox, and podagent", times: poolTaken,
			do: func() error { return own.launchAndExec(b.Context(), c, through) }, after: own.next,
		},
		side{
			name: "its two writes alone", times: poolTaken,
			timed: func() (time.Duration, error) { return taker.write(b.Context()) }, after: taker.next,
		},
	).limit("limit", 25)
	compare(b, "start", "take one by a new process, to the command's end", adoptRounds, side{
		name: "podagent",
		do:   func() error { return orchestrator(b.Context(), "run", "--pool", "warm", "true") }, after: taker.fill,
	}).limit("limit", 100)
	slices.Sort(taker.times)
	late := once("podagent", taker.times[len(taker.times)*95/100].Seconds()*1000)
	publish(b, newRow("start", "the slowest twentieth of those taken in one process begins at", "ms", late)).limit("limit", 80)
}

// newOrchestrator returns a function that runs the command line in a new process, with the
// identity file of a launcher.
func newOrchestrator(b *testing.B, l *launcher.Kubernetes, c *launchertest.Cluster) func(ctx context.Context, args ...string) error {
	b.Helper()
	program := buildIn(b, filepath.Join("..", ".."), "orchestrator", "./cmd/orchestrator")
	environment := append(os.Environ(), "KUBECONFIG="+c.WriteKubeconfig(b), "PODAGENT_IDENTITY="+l.IdentityFile, "PODAGENT_IMAGE="+c.Image)
	return func(ctx context.Context, args ...string) error {
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Env = environment
		out, err := cmd.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return err
	}
}

// taker takes pods out of a pool, one in each moment.
type taker struct {
	b     *testing.B
	c     *launchertest.Cluster
	l     *launcher.Kubernetes
	began time.Time
	taken int
	times []time.Duration
}

func (t *taker) take(ctx context.Context) error {
	t.began = time.Now()
	spec := t.c.Spec("")
	spec.Take.Pool, spec.Env, spec.OnClose = "warm", []string{"A=1"}, launcher.CloseKeep
	s, err := firstExec(ctx, t.l, spec)
	if err != nil {
		return err
	}
	t.times = append(t.times, time.Since(t.began))
	return s.Close()
}

// write makes a Lease and takes a pod out of the pool, as a launch does, without a check or an
// agent. It returns what the two calls took.
func (t *taker) write(ctx context.Context) (time.Duration, error) {
	api := t.c.API(t.b)
	pods := api.CoreV1().Pods(t.c.Namespace)
	list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: podmeta.LabelPool + "=warm", FieldSelector: "status.phase=Running"})
	if err != nil || len(list.Items) == 0 {
		return 0, errors.Join(err, errors.New("the pool is empty"))
	}
	pod := &list.Items[0]
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "bench-", OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}},
	}}
	patch := fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q,"labels":{%q:null,%q:null,"bench":"taken"},"ownerReferences":null}}`,
		pod.ResourceVersion, podmeta.LabelPool, podmeta.LabelManagedBy)
	t.began = time.Now()
	_, err = api.CoordinationV1().Leases(t.c.Namespace).Create(ctx, lease, metav1.CreateOptions{})
	if err == nil {
		_, err = pods.Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	return time.Since(t.began), err
}

// next waits for the next moment, or after the last of a round until the pool is full.
func (t *taker) next() error {
	if t.taken++; t.taken%poolTaken != 0 {
		time.Sleep(time.Until(t.began.Add(poolMoment)))
		return nil
	}
	return t.fill()
}

// fill ends the sandboxes, and waits until the pool is full.
func (t *taker) fill() error {
	ctx := context.Background()
	list, err := t.l.List(ctx)
	for _, s := range list {
		if !strings.HasPrefix(s.Pod, "warm-") {
			err = errors.Join(err, fmt.Errorf("sandbox %s started cold", s.ID))
		}
		err = errors.Join(err, t.l.Terminate(ctx, s.ID))
	}
	err = errors.Join(err, t.c.API(t.b).CoreV1().Pods(t.c.Namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "bench=taken"}))
	return errors.Join(err, awaitPool(ctx, t.l))
}

// awaitPool waits until the pool is full.
func awaitPool(ctx context.Context, l *launcher.Kubernetes) error {
	for ctx.Err() == nil {
		pools, err := pool.List(ctx, l)
		if err != nil || len(pools) == 1 && pools[0].Ready == poolSize {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
	return ctx.Err()
}

func benchmarkAdopt(b *testing.B) {
	p := launch(b)
	var s *launcher.Sandbox
	compare(b, "start", "adopt by a new orchestrator, to the first exec's result", adoptRounds,
		side{
			name: "podagent",
			do: func() (err error) {
				l := p.c.Launcher()
				l.Config = withOwnConnections(l.Config)
				s, err = firstExec(b.Context(), l, p.c.Spec(p.ID))
				if err == nil && s.Created {
					err = fmt.Errorf("the sandbox %q was created again", s.ID)
				}
				return err
			},
			after: func() error { return s.Close() },
		},
		side{name: "client-go exec", do: p.exec(b, io.Discard, "true")},
	).limit("limit", 150)
}

// withOwnConnections returns a Config that does not share its transport.
func withOwnConnections(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Dial = (&net.Dialer{}).DialContext
	return config
}

func benchmarkResume(b *testing.B) {
	c := launchertest.NewCluster(b, launcher.Restricted)
	l, pods := c.Launcher(), c.API(b).CoreV1().Pods(c.Namespace)
	spec := c.Spec("bench")
	spec.Pod.Workspace = launcher.Workspace{Keep: true, Size: resource.MustParse("1Gi"), StorageClass: c.Storage(b, 1)}
	s, err := firstExec(b.Context(), l, spec)
	if err != nil {
		b.Fatal(err)
	}
	pause := func() error { return errors.Join(s.Close(), l.Pause(b.Context(), "bench")) }
	if err := pause(); err != nil {
		b.Fatal(err)
	}
	r := compare(b, "start", "resume, to the first exec's result", createRounds,
		side{
			name: "podagent",
			do: func() (err error) {
				if s, err = l.Resume(b.Context(), "bench"); err != nil {
					return err
				}
				return s.Command(b.Context(), "true").Run()
			},
			after: pause,
		},
		pauseToReady(b, pods),
	)
	r.limit("pause pod + 1 s", r.median(pauseReady)+1000)
}

// firstExec launches a sandbox and runs a command in it.
func firstExec(ctx context.Context, l launcher.Launcher, spec launcher.Spec) (*launcher.Sandbox, error) {
	s, err := l.Launch(ctx, spec)
	if err != nil {
		return nil, err
	}
	return s, s.Command(ctx, "true").Run()
}
