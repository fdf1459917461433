package launcher_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/podagent/podagent/pkg/launcher"
)

// Sandboxes know the identity that an earlier version left in their namespace.
func TestNoIdentityIsMadeBesideOneInTheSandboxesNamespace(t *testing.T) {
	for name, tt := range map[string]struct {
		status int // of the Secret in the sandboxes' namespace
		key    string
		makes  bool
		says   string
	}{
		"there":     {http.StatusOK, "identity.pem", false, "kubectl create secret generic key -n system --from-file=identity.pem=/dev/stdin"},
		"other":     {http.StatusOK, "password", true, ""},
		"missing":   {http.StatusNotFound, "", true, ""},
		"forbidden": {http.StatusForbidden, "", true, ""},
		"broken":    {http.StatusBadRequest, "", false, "cannot look for the identity in Secret boxes/key"},
	} {
		made := false
		mux := http.NewServeMux()
		mux.HandleFunc("GET /api/v1/namespaces/system/secrets/key", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusNotFound, "") })
		mux.HandleFunc("GET /api/v1/namespaces/boxes/secrets/key", func(w http.ResponseWriter, _ *http.Request) { answer(w, tt.status, tt.key) })
		mux.HandleFunc("POST /api/v1/namespaces/system/secrets", func(w http.ResponseWriter, _ *http.Request) {
			made = true
			answer(w, http.StatusForbidden, "")
		})
		server := httptest.NewServer(mux)
		config := &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
		k := &launcher.Kubernetes{Config: config, Namespace: "boxes", IdentitySecret: "system/key"}
		_, err := k.Describe(t.Context(), "a")
		if made != tt.makes || err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: one was made: %v, %v", name, made, err)
		}
		server.Close()
	}
}

// answer sends a Secret with one key, or a failure.
func answer(w http.ResponseWriter, status int, key string) {
	var object any = &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(status), Reason: reasons[status]}
	if status == http.StatusOK {
		object = &corev1.Secret{TypeMeta: metav1.TypeMeta{Kind: "Secret", APIVersion: "v1"}, Data: map[string][]byte{key: []byte("x")}}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(object)
}

var reasons = map[int]metav1.StatusReason{
	http.StatusNotFound:   metav1.StatusReasonNotFound,
	http.StatusForbidden:  metav1.StatusReasonForbidden,
	http.StatusBadRequest: metav1.StatusReasonBadRequest,
}
