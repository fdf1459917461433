//go:build linux

package launcher_test

// What others do between two calls of one operation, where the order is known that does harm.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// roundTrip is an [http.RoundTripper].
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// through returns a launcher whose calls of the API are made by what wrap returns.
func (w *world) through(wrap func(http.RoundTripper) http.RoundTripper) *launcher.Kubernetes {
	k := w.cluster.Launcher()
	k.Config = rest.CopyConfig(k.Config)
	k.Config.Wrap(wrap)
	return k
}

// before returns a launcher that calls do before its first call of this method for a claim or a pod.
func (w *world) before(method, kind string, do func()) *launcher.Kubernetes {
	var once sync.Once
	return w.through(func(base http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.Method == method && strings.Contains(r.URL.Path, "/"+kind+"/") {
				once.Do(do)
			}
			return base.RoundTrip(r)
		})
	})
}

// overdueWorld has a sandbox without a pod, whose files are to go.
func overdueWorld(t *testing.T) *world {
	t.Helper()
	c := launchertest.NewCluster(t, launcher.Restricted)
	c.Storage(t, 0)
	w := newWorld(t, c, 0)
	for _, do := range []operation{operations["kept"], operations["pause"], preparations["overdue"]} {
		if _, _, err := do(t.Context(), w, c.Launcher()); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func TestSweepLeavesFilesThatAPauseKeepsMeanwhile(t *testing.T) {
	t.Parallel()
	w := overdueWorld(t)
	var paused error
	k := w.before(http.MethodDelete, "persistentvolumeclaims", func() { paused = w.cluster.Launcher().Pause(t.Context(), theID) })
	if swept, err := k.Sweep(t.Context(), theID); swept || err != nil || paused != nil {
		t.Errorf("swept: %v, %v; paused: %v", swept, err, paused)
	}
	if len(w.kept()) != 1 {
		t.Error("the files are gone")
	}
}

// Files that are just going stay for no pause, which says so.
func TestPauseOfFilesThatAreGoingFails(t *testing.T) {
	t.Parallel()
	w := overdueWorld(t)
	name := podmeta.NameOf(theID)
	hold := func(finalizers string) {
		if _, err := w.claims().Patch(context.WithoutCancel(t.Context()), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":`+finalizers+`}}`), metav1.PatchOptions{}); err != nil {
			t.Error(err)
		}
	}
	k := w.before(http.MethodPatch, "persistentvolumeclaims", func() {
		hold(`["example.com/held"]`) // so that it is seen to go
		if err := w.claims().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	defer hold("[]")
	if err := k.Pause(t.Context(), theID); !errors.Is(err, launcher.ErrNotFound) {
		t.Errorf("paused: %v", err)
	}
}

// A StatefulSet makes the claim of a pool again under its name, once a termination has deleted it.
func TestPauseOfFilesWhoseClaimWasReplacedFindsNothing(t *testing.T) {
	t.Parallel()
	w := overdueWorld(t)
	k := w.before(http.MethodPatch, "persistentvolumeclaims", func() {
		claim, err := w.claims().Get(t.Context(), podmeta.NameOf(theID), metav1.GetOptions{})
		if err == nil {
			err = w.claims().Delete(t.Context(), claim.Name, metav1.DeleteOptions{})
		}
		if err == nil {
			awaitNothing(t, "claim", func() ([]corev1.PersistentVolumeClaim, error) {
				list, err := w.claims().List(t.Context(), metav1.ListOptions{})
				return list.Items, err
			})
			claim.ResourceVersion, claim.UID, claim.DeletionTimestamp, claim.Finalizers = "", "", nil, nil
			_, err = w.claims().Create(t.Context(), claim, metav1.CreateOptions{})
		}
		if err != nil {
			t.Error(err)
		}
	})
	if err := k.Pause(t.Context(), theID); !errors.Is(err, launcher.ErrNotFound) {
		t.Errorf("paused: %v", err)
	}
}

// The API server answers 409 also if others keep changing a pod.
func TestHeartbeatTellsAPodThatChangesFromOneThatIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, launchertest.NewCluster(t, launcher.Restricted), 0)
	name, _, err := launches(false, false)(t.Context(), w, w.cluster.Launcher())
	if err != nil {
		t.Fatal(err)
	}
	for _, conflicts := range []int{1, 1000} {
		switch err := w.conflicting(conflicts).Heartbeat(t.Context(), theID); {
		case conflicts == 1 && err != nil:
			t.Errorf("after one conflict: %v", err)
		case conflicts > 1 && (!apierrors.IsConflict(err) || errors.Is(err, launcher.ErrGone)):
			t.Errorf("while there are conflicts: %v", err)
		}
	}
	replaced := w.before(http.MethodPatch, "pods", func() {
		pod, err := w.pods().Get(t.Context(), name, metav1.GetOptions{})
		if err == nil {
			err = w.pods().Delete(t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
		}
		if err == nil {
			pod.ResourceVersion, pod.UID = "", ""
			_, err = w.pods().Create(t.Context(), pod, metav1.CreateOptions{})
		}
		if err != nil {
			t.Error(err)
		}
	})
	if err := replaced.Heartbeat(t.Context(), theID); !errors.Is(err, launcher.ErrGone) {
		t.Errorf("of a pod that was replaced: %v", err)
	}
}

// conflicting returns a launcher whose first patches of a pod meet changes by others.
func (w *world) conflicting(patches int) *launcher.Kubernetes {
	return w.through(func(base http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodPatch || patches == 0 {
				return base.RoundTrip(r)
			}
			patches--
			status := apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "a", errors.New("the object has been modified")).Status()
			status.Kind, status.APIVersion = "Status", "v1"
			body, err := json.Marshal(status)
			return &http.Response{StatusCode: http.StatusConflict, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)), Request: r}, err
		})
	})
}
