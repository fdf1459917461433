package bench

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// mostAtOnce is the largest number of parallel calls.
const mostAtOnce = 256

// manySandboxes is the number of sandboxes that are launched in parallel.
const manySandboxes = 50

// BenchmarkMany measures parallel calls to one sandbox, through the API server, and
// parallel sandboxes.
func BenchmarkMany(b *testing.B) {
	b.Run("calls", benchmarkManyCalls)
	b.Run("sandboxes", benchmarkManySandboxes)
}

func benchmarkManyCalls(b *testing.B) {
	p := launch(b)
	d := p.startSandboxd(b)
	const small = 4 << 10
	if err := p.write(b, "small", random(small))(); err != nil {
		b.Fatal(err)
	}
	for _, n := range []int{1, 16, 64, mostAtOnce} {
		compare(b, "many", fmt.Sprintf("read 4 KiB, %d at once", n), 10,
			side{name: "podagent", do: atOnce(n, p.read(b, "small", small))},
			side{name: "sandboxd", do: atOnce(n, d.read(b, "small", small))},
		)
		sides := []side{
			{name: "podagent", do: atOnce(n, p.run(b, "true"))},
			{name: "sandboxd", do: atOnce(n, d.run(b, "true"))},
		}
		if n <= 16 { // more make a small node unusable
			sides = append(sides, side{name: "client-go exec", do: atOnce(n, p.exec(b, io.Discard, "true"))})
		}
		compare(b, "many", fmt.Sprintf("exec true, %d at once", n), 10, sides...)
	}
}

// atOnce returns a call that makes n calls in parallel.
func atOnce(n int, do func() error) func() error {
	return func() error {
		var group errgroup.Group
		for range n {
			group.Go(do)
		}
		return group.Wait()
	}
}

// benchmarkManySandboxes launches the sandboxes once, and as many pods that do
// nothing.
func benchmarkManySandboxes(b *testing.B) {
	c := launchertest.NewCluster(b, launcher.Restricted)
	l := c.Launcher()
	l.Identity, l.IdentityFile = nil, filepath.Join(b.TempDir(), "identity.pem") // for the processes, too
	pauses := manyPauses(b, c.API(b).CoreV1().Pods(c.Namespace))
	compare(b, "many", fmt.Sprintf("%d sandboxes at once, to the first exec's results", manySandboxes), 3,
		manyToExec(b, l, c, manySandboxes), pauses,
	).want(pauses.name, 1/1.4)
	compare(b, "many", fmt.Sprintf("%d sandboxes by as many new processes at once", manySandboxes), 3,
		manyByProcesses(b, l, c), pauses,
	).want(pauses.name, 1/1.4)
	compare(b, "many", fmt.Sprintf("%d sandboxes in waves of %d, each to the first exec's results", waves*waveSize, waveSize), waves,
		manyToExec(b, l, c, waveSize))
}

// In waves, sandboxes come and go on one node.
const (
	waves    = 10
	waveSize = 20
)

// each does something for so many sandboxes at once.
func each(b *testing.B, n int, do func(ctx context.Context, id string) error) func() error {
	return func() error {
		group, ctx := errgroup.WithContext(b.Context())
		for i := range n {
			group.Go(func() error { return do(ctx, fmt.Sprint("bench-", i)) })
		}
		return group.Wait()
	}
}

func manyToExec(b *testing.B, l launcher.Launcher, c *launchertest.Cluster, n int) side {
	return side{
		name: "podagent",
		do: each(b, n, func(ctx context.Context, id string) error {
			s, err := firstExec(ctx, l, c.Spec(id))
			if err == nil {
				err = s.Close()
			}
			return err
		}),
		after: each(b, n, l.Terminate),
	}
}

func manyByProcesses(b *testing.B, l *launcher.Kubernetes, c *launchertest.Cluster) side {
	orchestrator := newOrchestrator(b, l, c)
	return side{
		name: "podagent",
		do: each(b, manySandboxes, func(ctx context.Context, id string) error {
			return orchestrator(ctx, "run", "--id", id, "true")
		}),
		after: each(b, manySandboxes, l.Terminate),
	}
}

func manyPauses(b *testing.B, pods corev1client.PodInterface) side {
	var made [manySandboxes]*corev1.Pod
	return side{
		name: fmt.Sprintf("%d pause pods, to Ready", manySandboxes),
		do: func() error {
			group, ctx := errgroup.WithContext(b.Context())
			for i := range made {
				group.Go(func() (err error) {
					made[i], err = createPod(ctx, pods, pausePod())
					return err
				})
			}
			return group.Wait()
		},
		after: func() error {
			group, ctx := errgroup.WithContext(b.Context())
			for _, pod := range made {
				group.Go(func() error { return removePod(ctx, pods, pod) })
			}
			return group.Wait()
		},
	}
}
