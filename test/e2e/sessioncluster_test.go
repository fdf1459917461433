package e2e

// Problems between a session store and its cluster.

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/tools/sessionstore"
)

// secretsOf returns the Secrets of all sessions.
func secretsOf(t *testing.T, c *launchertest.Cluster) []corev1.Secret {
	t.Helper()
	list, err := c.API(t).CoreV1().Secrets(c.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: sessionstore.LabelSession})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// part matches the path of a part, which contains the name of its save.
var part = regexp.MustCompile(`/secrets/podagent-session-\w+-\w+-\d+$`)

// isHead reports whether a request is one for a head, with this method.
func isHead(r *http.Request, method string) bool {
	switch {
	case r.Method != method || !strings.Contains(r.URL.Path, "/secrets"):
		return false
	case method == http.MethodPost:
		body := bodyOf(r)
		return !strings.Contains(body, `"immutable":true`)
	}
	return strings.Contains(r.URL.Path, "/secrets/") && !part.MatchString(r.URL.Path)
}

func bodyOf(r *http.Request) string {
	body, err := r.GetBody()
	if err != nil {
		return ""
	}
	text, _ := io.ReadAll(body)
	return string(text)
}

func TestSessionStoreOfAClusterLeavesNoPartsBehind(t *testing.T) {
	t.Parallel()
	c := sessionCluster(t)
	s := clusterStore(t, c)
	v := save(t, s, "job", make([]byte, 4<<20), "")
	v = save(t, s, "job", make([]byte, 3<<20), v)
	if n := len(secretsOf(t, c)); n != 4 {
		t.Errorf("3 MiB are in %d Secrets", n)
	}
	if _, err := s.Save(t.Context(), "job", make([]byte, 4<<20), "1"); !errors.Is(err, sessionstore.ErrConflict) {
		t.Errorf("a version that never was: %v", err)
	}
	if n := len(secretsOf(t, c)); n != 4 {
		t.Errorf("after a conflict there are %d Secrets", n)
	}
	v = save(t, s, "job", []byte("small"), v)
	if n := len(secretsOf(t, c)); n != 1 {
		t.Errorf("5 bytes are in %d Secrets", n)
	}
	save(t, s, "job", make([]byte, 2<<20), v)
	if err := s.Delete(t.Context(), "job"); err != nil || len(secretsOf(t, c)) != 0 {
		t.Errorf("%v, and %d Secrets are left", err, len(secretsOf(t, c)))
	}
}

// TestSessionStoreDeletesNothingThatIsBeingSaved deletes a session when another
// host has saved the parts of a snapshot, but not yet its head.
func TestSessionStoreDeletesNothingThatIsBeingSaved(t *testing.T) {
	t.Parallel()
	c := sessionCluster(t)
	other := clusterStore(t, c)
	large := bytes.Repeat([]byte("x"), 3<<20)
	for _, before := range []bool{false, true} {
		id := fmt.Sprint("deleted before: ", before)
		if before {
			save(t, other, id, large, "")
			if err := other.Delete(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		s := clusterStoreVia(t, c, func(next http.RoundTripper) roundTrip {
			return func(r *http.Request) (*http.Response, error) {
				if isHead(r, http.MethodPost) {
					if err := other.Delete(t.Context(), id); err != nil {
						t.Error(err)
					}
				}
				return next.RoundTrip(r)
			}
		})
		version := save(t, s, id, large, "")
		if got, err := other.Load(t.Context(), id); err != nil || got.Version != version || !bytes.Equal(got.Data, large) {
			t.Errorf("%s: %d bytes, %v", id, len(got.Data), err)
		}
	}
}

// TestSessionStoreDeleteMeetsASave replaces a large snapshot after Delete has
// looked at it and before Delete removes it.
func TestSessionStoreDeleteMeetsASave(t *testing.T) {
	t.Parallel()
	c := sessionCluster(t)
	other := clusterStore(t, c)
	version := save(t, other, "a", make([]byte, 3<<20), "")
	var once sync.Once
	s := clusterStoreVia(t, c, func(next http.RoundTripper) roundTrip {
		return func(r *http.Request) (*http.Response, error) {
			if isHead(r, http.MethodDelete) {
				once.Do(func() { version = save(t, other, "a", make([]byte, 2<<20), version) })
			}
			return next.RoundTrip(r)
		}
	})
	if err := s.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Load(t.Context(), "a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is there: %v", err)
	}
	if n := len(secretsOf(t, c)); n != 0 {
		t.Errorf("%d Secrets are left", n)
	}
}
