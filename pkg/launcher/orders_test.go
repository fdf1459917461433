//go:build linux

package launcher_test

// One id stays one sandbox, in whatever order the API server gets the calls of launches with
// and without a pool, adoptions, pauses, resumes and terminations. The pods are real objects
// that no node runs: what happens once a launch connects needs no order.

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/internal/interleave"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// unscheduled is a patch by which no node runs a pod.
const unscheduled = `{"spec": {"schedulerName": "nobody"}}`

// world is a sandbox and a pool, anew for each order, but always with the same names.
type world struct {
	*testing.T
	cluster *launchertest.Cluster
	api     kubernetes.Interface
	results []result // by operation
}

// The names of the sandbox, of the pool, and of the pool with kept workspaces.
const (
	theID    = "a"
	thePool  = "warm"
	keptPool = "files"
)

// result is what an operation has got: a pod, or none.
type result struct {
	pod, uid string
	err      error
}

func newWorld(t *testing.T, c *launchertest.Cluster, warm int) *world {
	w := &world{T: t, cluster: c, api: c.API(t)}
	w.fill(thePool, warm, w.spec(false, false, ""))
	return w
}

// fill makes pods that wait in a pool, as the cluster does.
func (w *world) fill(pool string, size int, spec launcher.Spec) {
	w.Helper()
	template, err := w.cluster.Launcher().PoolTemplate(w.Context(), pool, spec)
	if err != nil {
		w.Fatal(err)
	}
	for i := range size {
		pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
		pod.Name = fmt.Sprintf("%s-%d", pool, i)
		made, err := w.pods().Create(w.Context(), pod, metav1.CreateOptions{})
		if err == nil && spec.Pod.Workspace.Keep {
			err = w.makeClaim(made)
		}
		if err == nil {
			made.Status.Phase, made.Status.Conditions = corev1.PodRunning, []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			made.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "agent", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
			_, err = w.pods().UpdateStatus(w.Context(), made, metav1.UpdateOptions{})
		}
		if err != nil {
			w.Fatal(err)
		}
	}
}

// makeClaim makes the claim of a pod that waits, unless the cluster was faster.
func (w *world) makeClaim(pod *corev1.Pod) error {
	template := pod.Spec.Volumes[slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Ephemeral != nil })].Ephemeral.VolumeClaimTemplate
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	claim.Name = pod.Name + "-workspace"
	claim.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))}
	_, err := w.claims().Create(w.Context(), claim, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func (w *world) claims() typed.PersistentVolumeClaimInterface {
	return w.api.CoreV1().PersistentVolumeClaims(w.cluster.Namespace)
}

func (w *world) spec(pooled, kept bool, id string) launcher.Spec {
	spec := w.cluster.Spec(id)
	spec.Pod.Patch = []byte(unscheduled)
	switch {
	case pooled && kept:
		spec.Take.Pool = keptPool
	case pooled:
		spec.Take.Pool = thePool
	}
	if kept {
		spec.Pod.Workspace.Keep, spec.Pod.Workspace.StorageClass = true, "none"
	}
	return spec
}

// alive returns the sandbox's pods that stay.
func (w *world) alive() (list []corev1.Pod) {
	w.Helper()
	all, err := w.pods().List(w.Context(), metav1.ListOptions{})
	if err != nil {
		w.Fatal(err)
	}
	for _, pod := range all.Items {
		if pod.DeletionTimestamp == nil && pod.Annotations[podmeta.AnnotationID] == theID {
			list = append(list, pod)
		}
	}
	return list
}

func (w *world) pods() typed.PodInterface { return w.api.CoreV1().Pods(w.cluster.Namespace) }

// operation is something that an orchestrator does with the sandbox.
type operation func(ctx context.Context, w *world, k *launcher.Kubernetes) (pod, uid string, err error)

func launches(pooled, kept bool) operation {
	return func(ctx context.Context, w *world, k *launcher.Kubernetes) (string, string, error) {
		pod, uid, _, err := k.Acquire(ctx, w.spec(pooled, kept, theID))
		return pod, uid, err
	}
}

// launchThatFails acquires a pod, and gives it up because its agent did not answer, say.
func launchThatFails(pooled, kept bool) operation {
	return func(ctx context.Context, w *world, k *launcher.Kubernetes) (string, string, error) {
		_, _, abandon, err := k.Acquire(ctx, w.spec(pooled, kept, theID))
		if err == nil && abandon != nil {
			err = abandon(ctx)
		}
		return "", "", err
	}
}

// operations are what pairs names.
var operations = map[string]operation{
	"warm":        launches(true, false),
	"cold":        launches(false, false),
	"kept":        launches(false, true),
	"warm kept":   launches(true, true),
	"failed warm": launchThatFails(true, false),
	"failed cold": launchThatFails(false, false),
	"failed kept": launchThatFails(true, true),
	"open": func(ctx context.Context, w *world, k *launcher.Kubernetes) (string, string, error) {
		return k.FindPod(ctx, theID)
	},
	"resume": func(ctx context.Context, w *world, k *launcher.Kubernetes) (string, string, error) {
		return k.Revive(ctx, theID)
	},
	"pause": func(ctx context.Context, w *world, k *launcher.Kubernetes) (string, string, error) {
		return "", "", k.Pause(ctx, theID)
	},
	"sweep": func(ctx context.Context, w *world, k *launcher.Kubernetes) (string, string, error) {
		_, err := k.Sweep(ctx, theID)
		return "", "", err
	},
	"terminate": func(ctx context.Context, w *world, k *launcher.Kubernetes) (string, string, error) {
		return "", "", k.Terminate(ctx, theID)
	},
}

// preparations are what pairs names beside operations, for what comes before.
var preparations = map[string]operation{
	"end": func(ctx context.Context, w *world, k *launcher.Kubernetes) (string, string, error) {
		pod := w.alive()[0]
		pod.Status.Phase = corev1.PodSucceeded
		_, err := w.pods().UpdateStatus(ctx, &pod, metav1.UpdateOptions{})
		return "", "", err
	},
	// Its end was two days ago.
	"overdue": func(ctx context.Context, w *world, k *launcher.Kubernetes) (string, string, error) {
		claim, err := w.claims().Get(ctx, podmeta.NameOf(theID), metav1.GetOptions{})
		if err == nil {
			ends := time.Now().Add(-48 * time.Hour).UTC().Format(time.RFC3339Nano)
			claim.Annotations[podmeta.AnnotationFilesEnd] = ends + " " + claim.Annotations[podmeta.AnnotationResumed]
			_, err = w.claims().Update(ctx, claim, metav1.UpdateOptions{})
		}
		return "", "", err
	},
}

// run makes a world, does what comes before, runs the operations in an order, and checks that
// one sandbox is left, or none.
func run(t *testing.T, c *launchertest.Cluster, warm int, before, names []string, s *interleave.Schedule) {
	t.Helper()
	w := newWorld(t, c, warm)
	if slices.ContainsFunc(slices.Concat(before, names), func(name string) bool { return name == "warm kept" || name == "failed kept" }) {
		w.fill(keptPool, warm, w.spec(false, true, ""))
	}
	for _, name := range before {
		do := operations[name]
		if do == nil {
			do = preparations[name]
		}
		if _, _, err := do(t.Context(), w, c.Launcher()); err != nil {
			t.Fatalf("%s before: %v", name, err)
		}
	}
	w.settle()
	w.results = make([]result, len(names))
	for i, name := range names {
		s.Go(func(wrap func(http.RoundTripper) http.RoundTripper) {
			k := c.Launcher()
			k.Config = rest.CopyConfig(k.Config)
			k.Config.Wrap(wrap)
			r := &w.results[i]
			r.pod, r.uid, r.err = operations[name](t.Context(), w, k)
		})
	}
	s.Run()
	w.check(names)
	w.clean()
}

// settle waits until the cluster has taken the pods that are gone from what they owned: otherwise
// the calls of the operations would depend on when it does.
func (w *world) settle() {
	w.Helper()
	for {
		pods, err := w.pods().List(w.Context(), metav1.ListOptions{})
		claims, claimErr := w.claims().List(w.Context(), metav1.ListOptions{})
		leases, leaseErr := w.api.CoordinationV1().Leases(w.cluster.Namespace).List(w.Context(), metav1.ListOptions{})
		if err := errors.Join(err, claimErr, leaseErr); err != nil {
			w.Fatal(err)
		}
		var owners []metav1.OwnerReference
		for _, claim := range claims.Items {
			owners = append(owners, claim.OwnerReferences...)
		}
		for _, lease := range leases.Items {
			owners = append(owners, lease.OwnerReferences...)
		}
		left := slices.ContainsFunc(owners, func(o metav1.OwnerReference) bool {
			return o.Kind == "Pod" && !slices.ContainsFunc(pods.Items, func(pod corev1.Pod) bool { return pod.UID == o.UID })
		})
		if !left {
			return
		}
		select {
		case <-w.Context().Done():
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// check checks that each operation has succeeded, or has met what another did, and that there
// is at most one pod, which all see.
func (w *world) check(names []string) {
	w.Helper()
	alive := w.alive()
	if len(alive) > 1 {
		w.Errorf("%d pods stay: %s, %s", len(alive), alive[0].Name, alive[1].Name)
		return
	}
	ends := slices.ContainsFunc(names, func(name string) bool {
		return name == "terminate" || name == "pause" || strings.HasPrefix(name, "failed")
	})
	for i, r := range w.results {
		switch {
		case r.err != nil && !isOutcome(r.err):
			w.Errorf("%s: %v", names[i], r.err)
		case r.err == nil && r.uid != "" && !ends && (len(alive) == 0 || string(alive[0].UID) != r.uid):
			w.Errorf("%s has pod %s, which is not the one that stays", names[i], r.pod)
		}
	}
	ended := slices.ContainsFunc(names, func(name string) bool { return name == "terminate" || strings.HasPrefix(name, "failed") })
	if i := slices.Index(names, "pause"); i >= 0 && !ended && w.results[i].err == nil && len(w.kept()) == 0 {
		w.Error("the files are gone, though they are paused")
	}
	if kept := w.kept(); len(kept) > 1 {
		w.Errorf("the files are in %d claims: %s, %s", len(kept), kept[0], kept[1])
	}
	if pod, uid, err := w.cluster.Launcher().FindPod(w.Context(), theID); len(alive) == 1 && (err != nil || uid != string(alive[0].UID)) {
		w.Errorf("pod %s stays, but %s is found: %v", alive[0].Name, pod, err)
	}
}

// kept returns the names of the claims with the sandbox's files. One whose second owner is gone
// goes with its pod.
func (w *world) kept() (names []string) {
	w.Helper()
	claims, err := w.claims().List(w.Context(), metav1.ListOptions{})
	leases, leaseErr := w.api.CoordinationV1().Leases(w.cluster.Namespace).List(w.Context(), metav1.ListOptions{})
	if err := errors.Join(err, leaseErr); err != nil {
		w.Fatal(err)
	}
	for _, claim := range claims.Items {
		isHeld := claim.Name == podmeta.NameOf(theID)
		for _, lease := range leases.Items {
			isHeld = isHeld || slices.ContainsFunc(claim.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == lease.UID })
		}
		if claim.DeletionTimestamp == nil && isHeld {
			names = append(names, claim.Name)
		}
	}
	return names
}

// isOutcome reports whether an operation may end like this because of what another did.
func isOutcome(err error) bool {
	for _, outcome := range []error{launcher.ErrNotFound, launcher.ErrPaused, launcher.ErrGone, launcher.ErrNotKept} {
		if errors.Is(err, outcome) {
			return true
		}
	}
	return false
}

// clean removes what the world has left.
func (w *world) clean() {
	w.Helper()
	err := w.cluster.Launcher().Terminate(w.Context(), theID)
	list, listErr := w.pods().List(w.Context(), metav1.ListOptions{LabelSelector: podmeta.LabelPool})
	// The cluster would delete the holding in its own time.
	leaseErr := w.api.CoordinationV1().Leases(w.cluster.Namespace).DeleteCollection(w.Context(), metav1.DeleteOptions{}, metav1.ListOptions{})
	if err := errors.Join(err, listErr, leaseErr); err != nil {
		w.Fatal(err)
	}
	for _, pod := range list.Items {
		if err := w.pods().Delete(w.Context(), pod.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			w.Fatal(err)
		}
	}
	w.cleanClaims()
}

// cleanClaims removes the claims, which the cluster would do in its own time, and waits until
// their names are free.
func (w *world) cleanClaims() {
	w.Helper()
	for {
		list, err := w.claims().List(w.Context(), metav1.ListOptions{})
		if err != nil {
			w.Fatal(err)
		}
		if len(list.Items) == 0 {
			return
		}
		for _, claim := range list.Items {
			if err := w.claims().Delete(w.Context(), claim.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				w.Fatal(err)
			}
		}
		gone, err := w.claims().Watch(w.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
		if err != nil {
			w.Fatal(err)
		}
		for range list.Items {
			for event := range gone.ResultChan() {
				if event.Type == watch.Deleted {
					break
				}
			}
		}
		gone.Stop()
	}
}

// Three operations meet in random orders: 1,000 at full size.
func TestOneIDStaysOneSandboxWhenThreeMeet(t *testing.T) {
	orders := 20
	if os.Getenv("PODAGENT_TEST_FULL") != "" {
		orders = 1000
	}
	c := launchertest.NewCluster(t, launcher.Restricted)
	c.Storage(t, 0)
	all := slices.Sorted(maps.Keys(operations))
	for range orders {
		names := []string{all[rand.IntN(len(all))], all[rand.IntN(len(all))], []string{"warm", "warm kept"}[rand.IntN(2)]}
		befores := [][]string{nil, {"warm"}, {"cold"}, {"kept"}, {"kept", "pause"}, {"warm kept"}, {"warm kept", "pause"}}
		before := befores[rand.IntN(len(befores))]
		interleave.Random(t, func(s *interleave.Schedule) {
			run(t, c, 2, before, names, s)
		})
		if t.Failed() {
			t.Fatalf("%s after %s", names, before)
		}
	}
}
