package harness

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
	"github.com/podagent/podagent/pkg/launcher/pool"
)

// poolFault is what launches out of a pool do while a fault strikes.
type poolFault struct {
	*testing.T
	c       *launchertest.Cluster
	allowed func(error) bool // whether the fault may bring about such an error
	over    atomic.Bool      // the fault is over
	ends    sync.WaitGroup   // of sandboxes

	mu        sync.Mutex
	launched  int // so far
	recovered int // since the fault is over
	errors    []error
}

// The launches go on until so many have succeeded, before the fault and after it.
const faultLaunches = 6

// TestPoolFault launches sandboxes out of a pool of four pods while strike does harm. It checks
// that each sandbox has what its launch asked for, that each id has one pod at most, that
// launches fail only as allowed, and succeed again afterwards, and that nothing is left of all
// sandboxes that ended.
func TestPoolFault(t *testing.T, c *launchertest.Cluster, allowed func(error) bool, strike func()) {
	t.Helper()
	PoolOf(t, c, 4)
	f := &poolFault{T: t, c: c, allowed: allowed}
	ctx, cancel := context.WithTimeout(t.Context(), Hung)
	defer cancel()
	keeping, stop := context.WithCancel(ctx)
	kept := c.Launcher()
	var all, launches sync.WaitGroup
	all.Go(func() { _ = kept.KeepWarm(keeping, PoolName, 2) }) // until it is stopped
	for i, k := range []*launcher.Kubernetes{kept, c.Launcher(), c.Launcher()} {
		launches.Go(func() { f.launches(ctx, fmt.Sprintf("w%d", i), k) })
	}
	Await(t, "launches before the fault", func() bool { return f.counts(&f.launched) })
	strike()
	f.over.Store(true)
	launches.Wait()
	f.ends.Wait()
	stop()
	all.Wait()
	t.Logf("%d launches succeeded and %d failed, the first with %v", f.launched, len(f.errors), errors.Join(f.errors[:min(2, len(f.errors))]...))
	f.sweep()
}

// counts reports whether there have been enough launches of a kind.
func (f *poolFault) counts(launches *int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return *launches >= faultLaunches
}

// launches launches one sandbox after the other until there were enough after the fault.
func (f *poolFault) launches(ctx context.Context, name string, k *launcher.Kubernetes) {
	for i := 0; !f.counts(&f.recovered); i++ {
		if ctx.Err() != nil {
			f.Errorf("%s: launches do not succeed again", name)
			return
		}
		after := f.over.Load()
		err := f.launch(ctx, k, fmt.Sprintf("%s-%d", name, i))
		f.mu.Lock()
		switch {
		case err != nil:
			f.errors = append(f.errors, err)
		case after:
			f.recovered++
			fallthrough
		default:
			f.launched++
		}
		f.mu.Unlock()
		if err != nil && !f.allowed(err) {
			f.Errorf("%s-%d: %v", name, i, err)
			return
		}
		if err != nil {
			time.Sleep(pollPeriod) // as a caller would that tries again
		}
	}
}

// launch launches a sandbox twice at once, uses it, and ends it. The error is one of a launch or
// a call.
func (f *poolFault) launch(ctx context.Context, k *launcher.Kubernetes, id string) error {
	again := make(chan error, 1)
	go func() { again <- f.use(ctx, f.c.Launcher(), id) }()
	err := errors.Join(f.use(ctx, k, id), <-again)
	f.ends.Go(func() {
		f.checkAlone(ctx, id)
		for ctx.Err() == nil { // the fault may prevent the end, too
			if err := f.c.Launcher().Terminate(ctx, id); err == nil || errors.Is(err, launcher.ErrNotFound) {
				return
			}
			time.Sleep(pollPeriod)
		}
	})
	return err
}

// checkAlone checks that a sandbox does not have two pods, if the API server answers.
func (f *poolFault) checkAlone(ctx context.Context, id string) {
	list, err := f.c.API(f).CoreV1().Pods(f.c.Namespace).List(ctx, metav1.ListOptions{LabelSelector: podmeta.LabelID + "=" + id})
	if err != nil {
		return
	}
	var names []string
	for _, pod := range list.Items {
		if pod.DeletionTimestamp == nil {
			names = append(names, pod.Name)
		}
	}
	if len(names) > 1 {
		f.Errorf("%s has the pods %q", id, names)
	}
}

// use launches a sandbox and checks that it has what the launch asked for.
func (f *poolFault) use(ctx context.Context, k *launcher.Kubernetes, id string) error {
	spec := Pooled(f.c, id)
	spec.Env, spec.Protected = []string{"SANDBOX=" + id}, []string{"go.mod"}
	s, err := k.Launch(ctx, spec)
	if err != nil {
		return fmt.Errorf("launching %s: %w", id, err)
	}
	defer s.Close()
	out, err := s.Shell(ctx, "echo $SANDBOX").Output()
	if err == nil && string(out) != id+"\n" {
		f.Errorf("%s says %q", id, out)
	}
	if err == nil {
		err = s.WriteFile(ctx, "go.mod", nil, 0o600)
		if err == nil {
			f.Errorf("%s has no protected path", id)
		}
		if errors.Is(err, fsops.ErrProtected) {
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("calling %s: %w", id, err)
	}
	return nil
}

// sweep checks that nothing is left when the pool is gone.
func (f *poolFault) sweep() {
	f.Helper()
	if err := pool.Delete(f.Context(), f.c.Launcher(), PoolName); err != nil {
		f.Fatal(err)
	}
	Await(f.T, "the end of all pods and holdings", func() bool {
		pods, err := f.c.API(f).CoreV1().Pods(f.c.Namespace).List(f.Context(), metav1.ListOptions{})
		if err != nil {
			f.Fatal(err)
		}
		leases, err := f.c.API(f).CoordinationV1().Leases(f.c.Namespace).List(f.Context(), NoHeartbeats)
		if err != nil {
			f.Fatal(err)
		}
		for _, pod := range pods.Items {
			if id := pod.Annotations[podmeta.AnnotationID]; id != "" && pod.DeletionTimestamp == nil {
				f.Fatalf("sandbox %s has ended, and pod %s stays", id, pod.Name)
			}
		}
		return len(pods.Items)+len(leases.Items) == 0
	})
}
