package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

const (
	listRounds = 5
	// copiesAtOnce is how many pods are made at once: more take no less time. So many are deleted
	// at once, as a reaper does.
	copiesAtOnce   = 32
	deletionAtOnce = 64
)

// benchmarkScaleList lists many sandboxes, and reaps the half of them that nobody needs.
func benchmarkScaleList(b *testing.B) {
	c := launchertest.NewCluster(b, launcher.Restricted)
	n := simulate(b, c)
	l := c.Launcher()
	all := *scale * 5 / 2
	m := newCopier(b, c, n)
	if err := m.copies(b.Context(), all); err != nil {
		b.Fatal(err)
	}
	compare(b, "scale", fmt.Sprintf("list %d sandboxes", all), listRounds, side{name: "podagent", do: func() error {
		list, err := l.List(b.Context())
		if err == nil && len(list) != all+1 {
			err = fmt.Errorf("%d sandboxes were listed", len(list))
		}
		return err
	}}, side{name: "client-go", do: func() error {
		_, err := c.API(b).CoreV1().Pods(c.Namespace).List(b.Context(), metav1.ListOptions{})
		return err
	}}).limit("limit", 1000)
	begun := time.Now()
	reaped, err := l.Reap(b.Context(), launcher.ReapOptions{HeartbeatOnly: true})
	reaping := time.Since(begun)
	if err != nil || len(reaped) != all/2 {
		b.Fatalf("%d sandboxes were reaped: %v", len(reaped), err)
	}
	deleting, err := m.deleteRest(b.Context(), all/2)
	if err != nil {
		b.Fatal(err)
	}
	publish(b, newRow("scale", fmt.Sprintf("reap %d of %d sandboxes", all/2, all), "s", once("podagent", reaping.Seconds())).
		beside(once("client-go, deletions alone", deleting.Seconds()))).limit("limit", 5)
}

// copier makes the pods of sandboxes faster than a launcher: as copies of one.
type copier struct {
	api      kubernetes.Interface
	original *corev1.Pod
}

func newCopier(b *testing.B, c *launchertest.Cluster, n *simulated) *copier {
	b.Helper()
	spec := c.Spec("original")
	spec.Pod.Patch = n.patch()
	s, err := c.Launcher().Launch(b.Context(), spec)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	config := rest.CopyConfig(c.Admin)
	config.QPS = -1
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		b.Fatal(err)
	}
	original, err := api.CoreV1().Pods(c.Namespace).Get(b.Context(), s.PodName(), metav1.GetOptions{})
	if err != nil {
		b.Fatal(err)
	}
	return &copier{api, original}
}

// copies makes this many sandboxes, and returns when they run. Every other one has had no
// heartbeat for long.
func (m *copier) copies(ctx context.Context, count int) error {
	group, making := errgroup.WithContext(ctx)
	group.SetLimit(copiesAtOnce)
	for i := range count {
		last := time.Now()
		if i%2 == 1 {
			last = last.Add(-2 * launcher.DefaultStaleAfter)
		}
		group.Go(func() error { return m.copy(making, fmt.Sprint("copy-", i), last) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return await(ctx, "copies of a sandbox", func() error { return m.allRun(ctx) })
}

// copy makes a sandbox with this last heartbeat.
func (m *copier) copy(ctx context.Context, id string, heartbeat time.Time) error {
	pod := &corev1.Pod{Spec: m.original.Spec, ObjectMeta: *m.original.ObjectMeta.DeepCopy()}
	pod.Name, pod.UID, pod.ResourceVersion = podmeta.NameOf(id), "", ""
	pod.Labels[podmeta.LabelID], pod.Annotations[podmeta.AnnotationID] = podmeta.LabelOf(id), id
	pod.Annotations[podmeta.AnnotationHeartbeat] = heartbeat.UTC().Format(time.RFC3339Nano)
	_, err := m.api.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	return err
}

// deleteRest deletes the pods that a reaper has left, this many, and returns what that takes.
func (m *copier) deleteRest(ctx context.Context, count int) (time.Duration, error) {
	pods := m.api.CoreV1().Pods(m.original.Namespace)
	var left *corev1.PodList
	err := await(ctx, "the end of the reaped pods", func() (err error) {
		left, err = pods.List(ctx, metav1.ListOptions{})
		if err == nil && len(left.Items) != count+1 {
			err = fmt.Errorf("%d pods are left", len(left.Items))
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	group, deleting := errgroup.WithContext(ctx)
	group.SetLimit(deletionAtOnce)
	for _, pod := range left.Items {
		if pod.Name == m.original.Name {
			continue
		}
		only := metav1.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion}
		group.Go(func() error { return pods.Delete(deleting, pod.Name, metav1.DeleteOptions{Preconditions: &only}) })
	}
	err = group.Wait()
	return time.Since(begun), err
}

// allRun returns an error if a pod does not run yet.
func (m *copier) allRun(ctx context.Context) error {
	pending, err := m.api.CoreV1().Pods(m.original.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "status.phase!=Running", Limit: 1})
	if err == nil && len(pending.Items) > 0 {
		err = fmt.Errorf("pod %s does not run yet", pending.Items[0].Name)
	}
	return err
}
