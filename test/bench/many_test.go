package bench

import (
	"context"
	"fmt"
	"io"
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
	compare(b, "many", fmt.Sprintf("%d sandboxes at once, to the first exec's results", manySandboxes), 3,
		manyToExec(b, c.Launcher(), c),
		manyPauses(b, c.API(b).CoreV1().Pods(c.Namespace)),
	)
}

func manyToExec(b *testing.B, l launcher.Launcher, c *launchertest.Cluster) side {
	each := func(do func(ctx context.Context, id string) error) func() error {
		return func() error {
			group, ctx := errgroup.WithContext(b.Context())
			for i := range manySandboxes {
				group.Go(func() error { return do(ctx, fmt.Sprint("bench-", i)) })
			}
			return group.Wait()
		}
	}
	return side{
		name: "podagent",
		do: each(func(ctx context.Context, id string) error {
			s, err := firstExec(ctx, l, c.Spec(id))
			if err == nil {
				err = s.Close()
			}
			return err
		}),
		after: each(l.Terminate),
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
