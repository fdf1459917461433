package launcher

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/podagent/podagent/pkg/launcher/internal/keys"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// rotating returns a launcher that knows the older of two keys, one that knows both while the
// older is retiring, and the latter's API.
func rotating(t *testing.T) (older, both *cluster, api *http.ServeMux) {
	t.Helper()
	first, second := made(t, 1, time.Time{}), made(t, 2, time.Time{})
	older, both, api = noting(t), noting(t), http.NewServeMux()
	older.identities = onlyIdentity(t, first.Identity)
	r, err := newRing([]keyVersion{second, retiring(first)})
	if err != nil {
		t.Fatal(err)
	}
	both.identities.ring, both.identities.at = r, time.Now()
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	both.log = slog.New(slog.DiscardHandler)
	both.api, err = kubernetes.NewForConfig(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	return older, both, api
}

func sends(t *testing.T, w http.ResponseWriter, object any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(object); err != nil {
		t.Error(err)
	}
}

// serveClaim has an API serve a claim, to which patches apply, and make Leases.
func serveClaim(t *testing.T, api *http.ServeMux, claim *corev1.PersistentVolumeClaim) {
	claim.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}
	path := "/api/v1/namespaces/sandboxes/persistentvolumeclaims/" + claim.Name
	api.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { sends(t, w, claim) })
	api.HandleFunc("PATCH "+path, func(w http.ResponseWriter, r *http.Request) {
		patch := metav1.PartialObjectMetadata{}
		if err := json.NewDecoder(r.Body).Decode(&patch); err != nil {
			t.Error(err)
		}
		claim.Annotations[podmeta.AnnotationPod] = patch.Annotations[podmeta.AnnotationPod]
		sends(t, w, claim)
	})
	const leases = "/apis/coordination.k8s.io/v1/namespaces/sandboxes/leases"
	api.HandleFunc("GET "+leases+"/", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		sends(t, w, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound})
	})
	api.HandleFunc("POST "+leases, func(w http.ResponseWriter, _ *http.Request) {
		sends(t, w, floorLease(claim, 1))
	})
}

// The key of a note is deleted only when the note is signed anew, or is not ours.
func TestNotesAreSignedAnewWhateverTheyAreAbout(t *testing.T) {
	unreadable := func(c *cluster, claim *corev1.PersistentVolumeClaim) string {
		return c.identities.now()[0].keys.Sign(c.subjectOf(claim.Name, string(claim.UID), "a"), 1, "{}")
	}
	for name, tt := range map[string]struct {
		change        func(*corev1.Pod)
		note          func(*cluster, *corev1.PersistentVolumeClaim) string
		signed, fails bool
	}{
		"a pod of the profile":       {signed: true},
		"one that is refused by now": {change: func(p *corev1.Pod) { p.Spec.HostNetwork = true }, signed: true},
		"one that cannot be read":    {note: unreadable, fails: true},
		"one that somebody has changed": {note: func(_ *cluster, claim *corev1.PersistentVolumeClaim) string {
			return claim.Annotations[podmeta.AnnotationPod] + " "
		}},
	} {
		older, both, api := rotating(t)
		pod := keptPod(t, older, "a")
		if tt.change != nil {
			tt.change(pod)
		}
		claim := madeClaim(t, older, pod, time.Now())
		if tt.note != nil {
			claim.Annotations[podmeta.AnnotationPod] = tt.note(older, claim)
		}
		serveClaim(t, api, claim)
		err := both.signAgain(t.Context(), claim.Name, "a")
		if signed := signerOf(claim) == both.fingerprint(); signed != tt.signed || (err != nil) != tt.fails {
			t.Errorf("%s: signed anew: %v, %v", name, signed, err)
		}
		if _, _, err := both.readNote(t.Context(), claim, "a"); tt.signed && err != nil {
			t.Errorf("%s: it cannot be read: %v", name, err)
		}
	}
}

// A note whose key cannot be looked up may be ours.
func TestNoteIsForeignOnlyIfThatIsKnown(t *testing.T) {
	c, claim := noting(t), &corev1.PersistentVolumeClaim{}
	if err := c.unsigned(claim, errors.New("the API is away")); isForeignNote(err) {
		t.Errorf("it is foreign: %v", err)
	}
	for _, known := range []error{keys.ErrNoNote, keys.ErrSignature, keys.ErrForeign} {
		if err := c.unsigned(claim, known); !isForeignNote(err) {
			t.Errorf("it is ours: %v", err)
		}
	}
}

// Anyone may make pods that seem to need a key, so who retires it must see what these are.
func TestSandboxesElsewhereAreNamedWithTheWayPastThem(t *testing.T) {
	older, both, api := rotating(t)
	pods := &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
	for _, name := range []string{"sandboxes/here", "b/one", "a/one", "a/two", "c/one"} {
		pod := keyedPod(t, older, older.identities.now())
		pod.Namespace, pod.Name, _ = strings.Cut(name, "/")
		pods.Items = append(pods.Items, *pod)
	}
	claims := &corev1.PersistentVolumeClaimList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaimList"}}
	for _, namespace := range []string{"a", "d", "sandboxes"} {
		claim := madeClaim(t, older, keptPod(t, older, "a"), time.Now())
		claim.Namespace, claim.Name = namespace, "one"
		claims.Items = append(claims.Items, *claim)
	}
	api.HandleFunc("GET /api/v1/pods", func(w http.ResponseWriter, _ *http.Request) { sends(t, w, pods) })
	api.HandleFunc("GET /api/v1/persistentvolumeclaims", func(w http.ResponseWriter, _ *http.Request) { sends(t, w, claims) })
	old := older.identities.now()[0]
	const want = "sandboxes of other namespaces need it (a/one, a/two, b/one and 2 more): retire it there, too, or, if they are not yours, with --only-here (in the library, onlyHere)"
	if err := both.checkElsewhere(t.Context(), old); err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	pods.Items, claims.Items = pods.Items[:1], claims.Items[2:]
	if err := both.checkElsewhere(t.Context(), old); err != nil {
		t.Errorf("with none elsewhere: %v", err)
	}
}
