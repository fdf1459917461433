package launcher

import (
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// floored returns a launcher whose API has this Lease for a claim, and nothing else.
func floored(t *testing.T, at time.Time) (*cluster, *corev1.PersistentVolumeClaim, *corev1.Pod) {
	t.Helper()
	c := noting(t)
	pod := keptPod(t, c, "a")
	claim := madeClaim(t, c, pod, time.Now())
	lease := floorLease(claim, 0)
	lease.TypeMeta = metav1.TypeMeta{APIVersion: coordinationv1.SchemeGroupVersion.String(), Kind: "Lease"}
	lease.Spec.RenewTime = new(metav1.NewMicroTime(at))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/leases/"+floorName(claim)) {
			t.Errorf("%s %s", r.Method, r.URL)
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(lease); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	api, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	c.api = api
	return c, claim, pod
}

// A user who may write Leases could use up all generations. Then no note is written, since
// none would be believed.
func TestFloorInTheFarFutureIsAnErrorThatNamesTheLease(t *testing.T) {
	for _, at := range []time.Time{
		time.Now().Add(floorAhead + time.Hour), time.Unix(0, math.MaxInt64).Add(-time.Microsecond),
		time.Unix(0, math.MaxInt64), time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC),
	} {
		c, claim, pod := floored(t, at)
		_, resumed := c.notedPodNow(t.Context(), claim, "a")
		for name, err := range map[string]error{
			"resume": resumed,
			"launch": c.takeForLaunch(t.Context(), claim, pod),
			"note":   c.raiseFloor(t.Context(), claim, time.Now().UnixNano()),
		} {
			if err == nil || !strings.Contains(err.Error(), "Lease sandboxes/"+floorName(claim)) {
				t.Errorf("%v: %s: %v", at, name, err)
			}
		}
	}
}

func TestRefusalOfAReplacedNoteNamesTheLease(t *testing.T) {
	c, claim, _ := floored(t, time.Now().Add(time.Hour))
	if _, err := c.notedPodNow(t.Context(), claim, "a"); err == nil || !strings.Contains(err.Error(), "was replaced") || !strings.Contains(err.Error(), floorName(claim)) {
		t.Error(err)
	}
}

// Times before 1678 have no nanoseconds either, and are no floor.
func TestFloorOfThePastRefusesNothing(t *testing.T) {
	for _, at := range []time.Time{time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(1500, 1, 1, 0, 0, 0, 0, time.UTC), time.Unix(0, 0)} {
		c, claim, _ := floored(t, at)
		if floor, _, err := c.floor(t.Context(), claim); err != nil || floor != 0 {
			t.Errorf("%v: %d, %v", at, floor, err)
		}
		if _, err := c.notedPodNow(t.Context(), claim, "a"); err != nil {
			t.Errorf("%v: %v", at, err)
		}
	}
}
