//go:build linux

package launcher_test

// What a killed launch leaves of a sandbox whose files are kept in the claim of a pool's pod.

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// mortal lets so many writes through. Then its process is dead: no request goes out any more.
type mortal struct {
	http.RoundTripper
	writes atomic.Int32
	die    sync.Once
	dead   chan struct{}
	over   context.Context // of the test
}

func (m *mortal) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet && m.writes.Add(-1) < 0 {
		m.die.Do(func() { close(m.dead) })
	}
	select {
	case <-m.dead:
		<-m.over.Done()
		return nil, m.over.Err()
	default:
		return m.RoundTripper.RoundTrip(r)
	}
}

// acquireAndDie begins a launch, whose process dies after so many writes.
func (w *world) acquireAndDie(writes int32) {
	m := &mortal{dead: make(chan struct{}), over: w.Context()}
	m.writes.Store(writes)
	k := w.cluster.Launcher()
	k.Config = rest.CopyConfig(k.Config)
	k.Config.Wrap(func(base http.RoundTripper) http.RoundTripper { m.RoundTripper = base; return m })
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _, _, _ = k.Acquire(w.Context(), w.spec(true, true, theID))
	}()
	select {
	case <-m.dead:
	case <-ended:
	}
}

// The holding, the pod, the claim: a launch may die after each write. The next one of the id
// succeeds, and keeps its files, and nothing is left when the sandbox is terminated.
func TestKilledLaunchOfAKeptWorkspaceOutOfAPoolLeavesNothing(t *testing.T) {
	t.Parallel()
	for writes := range int32(4) {
		for _, next := range []string{"warm kept", "kept", "terminate"} {
			t.Run(fmt.Sprintf("%s after %d writes", next, writes), func(t *testing.T) {
				t.Parallel()
				c := launchertest.NewCluster(t, launcher.Restricted)
				c.Storage(t, 0)
				w := newWorld(t, c, 0)
				w.fill(keptPool, 1, w.spec(false, true, ""))
				w.acquireAndDie(writes)
				if _, _, err := operations[next](t.Context(), w, c.Launcher()); err != nil {
					t.Fatal(err)
				}
				if next != "terminate" {
					w.wantKeptAcrossPods()
				}
				if err := c.Launcher().Terminate(t.Context(), theID); err != nil {
					t.Fatal(err)
				}
				w.awaitNothing()
			})
		}
	}
}

// wantKeptAcrossPods expects that the next pod has the claim of this one.
func (w *world) wantKeptAcrossPods() {
	w.Helper()
	before := w.kept()
	if err := w.cluster.Launcher().Pause(w.Context(), theID); err != nil {
		w.Fatal(err)
	}
	name, _, err := w.cluster.Launcher().Revive(w.Context(), theID)
	alive := w.alive()
	if err != nil || len(before) != 1 || len(alive) != 1 || name != podmeta.NameOf(theID) {
		w.Fatalf("claims %q, %d pods, pod %s: %v", before, len(alive), name, err)
	}
	for _, v := range alive[0].Spec.Volumes {
		if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName != before[0] {
			w.Errorf("the next pod has claim %s, not %s", v.PersistentVolumeClaim.ClaimName, before[0])
		}
	}
}

// awaitNothing waits until nothing of the sandbox is left. What still waits in the pool is not.
func (w *world) awaitNothing() {
	w.Helper()
	for {
		leases, err := w.api.CoordinationV1().Leases(w.cluster.Namespace).List(w.Context(), metav1.ListOptions{})
		if err != nil {
			w.Fatal(err)
		}
		if len(w.alive())+len(w.kept())+len(leases.Items) == 0 {
			return
		}
		select {
		case <-w.Context().Done():
			w.Fatalf("left are pods %v, claims %v, leases %v", w.alive(), w.kept(), leases.Items)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// An orchestrator that knows form 1 alone believes that a holding ends with its pod.
func TestHoldingOfFilesIsOfANewerForm(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	c.Storage(t, 0)
	w := newWorld(t, c, 1)
	w.fill(keptPool, 1, w.spec(false, true, ""))
	for operation, want := range map[string]string{"warm": "", "warm kept": "2"} {
		if _, _, err := operations[operation](t.Context(), w, c.Launcher()); err != nil {
			t.Fatal(err)
		}
		held, err := w.api.CoordinationV1().Leases(c.Namespace).Get(t.Context(), "id."+podmeta.NameOf(theID), metav1.GetOptions{})
		if err != nil || held.Annotations[podmeta.AnnotationForm] != want {
			t.Errorf("%s: form %q, want %q: %v", operation, held.Annotations[podmeta.AnnotationForm], want, err)
		}
		if err := c.Launcher().Terminate(t.Context(), theID); err != nil {
			t.Fatal(err)
		}
	}
}
