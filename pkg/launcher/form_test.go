//go:build linux

package launcher_test

// What a newer orchestrator has made in a form that this one does not know is shown, and
// otherwise left alone.

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// form is the patch by which an object gets a form.
func form(of string) []byte {
	return fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, podmeta.AnnotationForm, of)
}

// makeNewer has an administrator give the pods, claims or leases of the sandbox a form. The
// pods that wait in the pool keep theirs.
func (w *world) makeNewer(kind, of string) {
	w.Helper()
	ctx, opts := w.Context(), metav1.PatchOptions{}
	var err error
	switch kind {
	case "pod":
		for _, pod := range w.alive() {
			_, err = w.pods().Patch(ctx, pod.Name, types.MergePatchType, form(of), opts)
		}
	case "claim":
		_, err = w.api.CoreV1().PersistentVolumeClaims(w.cluster.Namespace).Patch(ctx, podmeta.NameOf(theID), types.MergePatchType, form(of), opts)
	case "holding":
		_, err = w.api.CoordinationV1().Leases(w.cluster.Namespace).Patch(ctx, "id."+podmeta.NameOf(theID), types.MergePatchType, form(of), opts)
	}
	if err != nil {
		w.Fatal(err)
	}
}

// objects returns the pods, claims and leases with their versions.
func (w *world) objects() map[string]string {
	w.Helper()
	pods, err := w.pods().List(w.Context(), metav1.ListOptions{})
	claims, claimErr := w.api.CoreV1().PersistentVolumeClaims(w.cluster.Namespace).List(w.Context(), metav1.ListOptions{})
	leases, leaseErr := w.api.CoordinationV1().Leases(w.cluster.Namespace).List(w.Context(), metav1.ListOptions{})
	if err := errors.Join(err, claimErr, leaseErr); err != nil {
		w.Fatal(err)
	}
	all := map[string]string{}
	for _, o := range pods.Items {
		all["pod "+o.Name] = o.ResourceVersion
	}
	for _, o := range claims.Items {
		all["claim "+o.Name] = o.ResourceVersion
	}
	for _, o := range leases.Items {
		all["lease "+o.Name] = o.ResourceVersion
	}
	return all
}

// acts are all ways to act on a sandbox.
func acts() map[string]operation {
	acts := maps.Clone(operations)
	acts["extend"] = func(ctx context.Context, w *world, k *launcher.Kubernetes) (string, string, error) {
		_, err := k.Extend(ctx, theID, time.Hour)
		return "", "", err
	}
	acts["heartbeat"] = func(ctx context.Context, w *world, k *launcher.Kubernetes) (string, string, error) {
		return "", "", k.Heartbeat(ctx, theID)
	}
	acts["sign"] = func(ctx context.Context, w *world, k *launcher.Kubernetes) (string, string, error) {
		return "", "", k.SignNote(ctx, theID, "")
	}
	return acts
}

func TestSandboxOfANewerFormIsShownAndLeftAlone(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		before []string
		kind   string
		form   string
		except []string // what has nothing to do with such an object
	}{
		"pod":            {[]string{"cold"}, "pod", "4", nil},
		"pod of a pool":  {[]string{"warm"}, "pod", "4", nil},
		"kept pod":       {[]string{"kept"}, "pod", "4", []string{"sign"}},
		"no number":      {[]string{"cold"}, "pod", "new", nil},
		"empty":          {[]string{"cold"}, "pod", "", nil},
		"zero":           {[]string{"cold"}, "pod", "0", nil},
		"claim":          {[]string{"kept", "pause"}, "claim", "4", nil},
		"claim of a pod": {[]string{"kept"}, "claim", "4", []string{"heartbeat", "resume", "extend", "describe", "sweep"}},
		"holding":        {[]string{"warm"}, "holding", "4", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := launchertest.NewCluster(t, launcher.Restricted)
			c.Storage(t, 0)
			w := newWorld(t, c, 2)
			for _, before := range test.before {
				if _, _, err := operations[before](t.Context(), w, c.Launcher()); err != nil {
					t.Fatal(err)
				}
			}
			w.makeNewer(test.kind, test.form)
			w.checkLeftAlone(test.form, test.except)
			w.checkShown(!slices.Contains(test.except, "describe"))
		})
	}
}

// checkLeftAlone checks that each act fails, says why, and changes nothing.
func (w *world) checkLeftAlone(form string, except []string) {
	w.Helper()
	before := w.objects()
	for name, act := range acts() {
		if slices.Contains(except, name) {
			continue
		}
		_, _, err := act(w.Context(), w, w.cluster.Launcher())
		says := fmt.Sprintf("form %q, and this orchestrator knows forms up to 3: update the orchestrator", form)
		if !errors.Is(err, launcher.ErrNewer) || !strings.Contains(err.Error(), says) {
			w.Errorf("%s: %v", name, err)
		}
		if after := w.objects(); !maps.Equal(after, before) {
			w.Fatalf("%s has changed\n%v to\n%v", name, before, after)
		}
	}
}

// checkShown checks that the sandbox is listed and described, and says why it cannot be used.
func (w *world) checkShown(says bool) {
	w.Helper()
	list, err := w.cluster.Launcher().List(w.Context())
	if err != nil || len(list) != 1 || list[0].ID != theID {
		w.Errorf("listed %+v: %v", list, err)
	}
	d, err := w.cluster.Launcher().Describe(w.Context(), theID)
	if err != nil || d.ID != theID {
		w.Errorf("described %+v: %v", d, err)
	}
	if why := errors.Join(append(d.Problems, d.AgentErr)...); says && !errors.Is(why, launcher.ErrNewer) {
		w.Errorf("it says %v", why)
	}
}

func TestHoldingOfANewerFormIsNotTakenBack(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	c.Storage(t, 0)
	w := newWorld(t, c, 1)
	// A launch that was killed has left it.
	waits, err := w.pods().Get(t.Context(), "warm-0", metav1.GetOptions{})
	if err == nil {
		err = c.Launcher().Hold(t.Context(), theID, waits)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.makeNewer("holding", "4")
	w.checkLeftAlone("4", nil)
}

// A reaper says what it leaves, so that somebody updates it; but not before that is stale.
func TestReapLeavesASandboxOfANewerForm(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	w := newWorld(t, c, 0)
	k := c.Launcher()
	if _, _, _, err := k.Acquire(t.Context(), w.spec(false, false, theID)); err != nil {
		t.Fatal(err)
	}
	w.makeNewer("pod", "4")
	if reaped, err := k.Reap(t.Context(), launcher.ReapOptions{StaleAfter: time.Hour}); len(reaped) > 0 || err != nil {
		t.Errorf("one that is not stale: %v, %v", reaped, err)
	}
	for _, opts := range []launcher.ReapOptions{{StaleAfter: 1}, {StaleAfter: 1, HeartbeatOnly: true}, {StaleAfter: 1, DryRun: true}} {
		if reaped, err := k.Reap(t.Context(), opts); len(reaped) > 0 || !errors.Is(err, launcher.ErrNewer) {
			t.Errorf("%+v: %v, %v", opts, reaped, err)
		}
	}
	if err := k.Tell(t.Context()); !errors.Is(err, launcher.ErrNewer) {
		t.Errorf("a rotation: %v", err)
	}
	if len(w.alive()) != 1 {
		t.Error("it is gone")
	}
}

// A pod of the id's own name may be left beside the one that counts.
func TestTerminateLeavesBothPodsIfOneIsOfANewerForm(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	w := newWorld(t, c, 1)
	if _, _, err := operations["warm"](t.Context(), w, c.Launcher()); err != nil {
		t.Fatal(err)
	}
	left := w.alive()[0]
	left.ObjectMeta = metav1.ObjectMeta{Name: podmeta.NameOf(theID), Labels: left.Labels, Annotations: map[string]string{podmeta.AnnotationID: theID}}
	left.Spec.NodeName = ""
	if _, err := w.pods().Create(t.Context(), &left, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.pods().Patch(t.Context(), left.Name, types.MergePatchType, form("4"), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.Launcher().Terminate(t.Context(), theID); !errors.Is(err, launcher.ErrNewer) || len(w.alive()) != 2 {
		t.Errorf("%d pods stay: %v", len(w.alive()), err)
	}
}

// A launch makes a pod anew, and says why it has not taken one.
func TestPodOfAPoolOfANewerFormIsNotTaken(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	w := newWorld(t, c, 1)
	if _, err := w.pods().Patch(t.Context(), "warm-0", types.MergePatchType, form("4"), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	pod, why, err := c.Launcher().AcquireWhy(t.Context(), w.spec(true, false, theID))
	if err != nil || pod != podmeta.NameOf(theID) || !strings.Contains(why, `it is of form "4"`) {
		t.Errorf("pod %s, since %q: %v", pod, why, err)
	}
}
