package e2e

// Hosts that are killed during a save, and answers that are lost.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// dying lets this many requests through and then fails all others, as if the host
// were killed. Unless answered is set, the answer to the last request is lost.
func dying(requests int64, answered bool) func(http.RoundTripper) roundTrip {
	var n atomic.Int64
	return func(next http.RoundTripper) roundTrip {
		return func(r *http.Request) (*http.Response, error) {
			switch k := n.Add(1); {
			case k > requests:
				return nil, errors.New("killed")
			case k == requests && !answered:
				resp, err := next.RoundTrip(r)
				if err == nil {
					resp.Body.Close()
				}
				return nil, errors.New("killed")
			}
			return next.RoundTrip(r)
		}
	}
}

// TestSessionStoreOutlivesAHostKilledAtAnyRequest kills a host at each request of a
// save. Another host finds either the former or the new snapshot, complete,
// continues from it, and leaves nothing behind in the end.
func TestSessionStoreOutlivesAHostKilledAtAnyRequest(t *testing.T) {
	t.Parallel()
	c := sessionCluster(t)
	other := clusterStore(t, c)
	former, next := bytes.Repeat([]byte("1"), 2<<20), bytes.Repeat([]byte("2"), 3<<20)
	for _, answered := range []bool{true, false} {
		for requests := int64(0); ; requests++ {
			id := fmt.Sprint(requests, answered)
			version := save(t, other, id, former, "")
			killed := clusterStoreVia(t, c, dying(requests, answered))
			_, err := killed.Save(t.Context(), id, next, version)
			done := err == nil
			got := load(t, other, id)
			if isNext := bytes.Equal(got.Data, next); !isNext && (done || !bytes.Equal(got.Data, former) || got.Version != version) {
				t.Errorf("killed after %d requests: %d bytes of version %s", requests, len(got.Data), got.Version)
			}
			save(t, other, id, next, got.Version)
			if err := other.Delete(t.Context(), id); err != nil {
				t.Error(err)
			}
			if n := len(secretsOf(t, c)); n != 0 {
				t.Fatalf("killed after %d requests: %d Secrets are left", requests, n)
			}
			if done {
				break
			}
			if requests > 50 {
				t.Fatal("a save takes more than 50 requests")
			}
		}
	}
}

// TestSessionStoreOutlivesAHostKilledAtItsFirstSave does the same for a session
// without a snapshot. Until its parts are old, they look like those of a host that
// is just saving.
func TestSessionStoreOutlivesAHostKilledAtItsFirstSave(t *testing.T) {
	t.Parallel()
	c := sessionCluster(t)
	other := clusterStore(t, c)
	data := bytes.Repeat([]byte("x"), 3<<20)
	for requests := range int64(6) {
		id := fmt.Sprint(requests)
		killed := clusterStoreVia(t, c, dying(requests, false))
		_, saveErr := killed.Save(t.Context(), id, data, "")
		got, err := other.Load(t.Context(), id)
		if isNone := errors.Is(err, fs.ErrNotExist); !isNone && !bytes.Equal(got.Data, data) || isNone && saveErr == nil {
			t.Errorf("killed after %d requests: %d bytes, %v, %v", requests, len(got.Data), saveErr, err)
		}
		left := secretsOf(t, c)
		// Hosts that load, save and delete meanwhile touch only their own parts.
		save(t, other, id, data, got.Version)
		if err := other.Delete(t.Context(), id); err != nil {
			t.Error(err)
		}
		if got.Version == "" && len(secretsOf(t, c)) != len(left) {
			t.Errorf("killed after %d requests: of %d Secrets %d are left", requests, len(left), len(secretsOf(t, c)))
		}
		old := clusterStoreVia(t, c, inElevenMinutes)
		if err := old.Delete(t.Context(), id); err != nil || len(secretsOf(t, c)) != 0 {
			t.Fatalf("killed after %d requests: %v, and in eleven minutes %d Secrets are left", requests, err, len(secretsOf(t, c)))
		}
	}
}

// inElevenMinutes makes the objects in the API server's lists look older.
func inElevenMinutes(next http.RoundTripper) roundTrip {
	return func(r *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(r)
		if err != nil || r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/secrets") {
			return resp, err
		}
		defer resp.Body.Close()
		var list metav1.PartialObjectMetadataList
		if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
			return nil, err
		}
		for i := range list.Items {
			list.Items[i].CreationTimestamp.Time = list.Items[i].CreationTimestamp.Add(-11 * time.Minute)
		}
		body, err := json.Marshal(list)
		resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		return resp, err
	}
}

// TestSessionStoreKeepsOldPartsThatAreNamed saves and deletes when everything in
// the store is old enough to be a stray.
func TestSessionStoreKeepsOldPartsThatAreNamed(t *testing.T) {
	t.Parallel()
	c := sessionCluster(t)
	s := clusterStore(t, c)
	version := save(t, s, "a", make([]byte, 3<<20), "")
	next := bytes.Repeat([]byte("2"), 3<<20)
	// Another host saves after the head is saved and before the look for strays.
	late := clusterStoreVia(t, c, func(rt http.RoundTripper) roundTrip {
		lists := inElevenMinutes(rt)
		return func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/secrets") {
				version = save(t, s, "a", next, load(t, s, "a").Version)
			}
			return lists(r)
		}
	})
	save(t, late, "a", make([]byte, 3<<20), version)
	if got := load(t, s, "a"); got.Version != version || !bytes.Equal(got.Data, next) {
		t.Errorf("%d bytes of version %s", len(got.Data), got.Version)
	}
	if n := len(secretsOf(t, c)); n != 4 {
		t.Errorf("3 MiB are in %d Secrets", n)
	}
}

// TestSessionStoreKnowsItsSaveWhenAnAnswerIsRepeated makes the API server execute a
// request but answer that it timed out, so that the client repeats it. The
// repetition is then refused because the object exists.
func TestSessionStoreKnowsItsSaveWhenAnAnswerIsRepeated(t *testing.T) {
	t.Parallel()
	c := sessionCluster(t)
	other := clusterStore(t, c)
	for _, size := range []int{1, 3 << 20} {
		id := fmt.Sprint(size)
		version := ""
		for _, method := range []string{http.MethodPost, http.MethodPut} {
			var once sync.Map
			s := clusterStoreVia(t, c, func(next http.RoundTripper) roundTrip {
				return func(r *http.Request) (*http.Response, error) {
					resp, err := next.RoundTrip(r)
					if err != nil || r.Method == http.MethodGet {
						return resp, err
					}
					if _, repeated := once.LoadOrStore(r.Method+r.URL.Path+nameIn(r), true); repeated {
						return resp, nil
					}
					resp.Body.Close()
					return &http.Response{
						StatusCode: http.StatusGatewayTimeout, Header: http.Header{"Retry-After": {"0"}},
						Body: io.NopCloser(strings.NewReader("{}")), Request: r,
					}, nil
				}
			})
			data := bytes.Repeat([]byte(method[:2]), size)
			version = save(t, s, id, data, version)
			if got := load(t, other, id); got.Version != version || !bytes.Equal(got.Data, data) {
				t.Errorf("%s of %d bytes: there are %d of version %s, not %s", method, size, len(got.Data), got.Version, version)
			}
			if method == http.MethodPut {
				if err := s.Delete(t.Context(), id); err != nil || len(secretsOf(t, c)) != 0 {
					t.Errorf("%v, and %d Secrets are left", err, len(secretsOf(t, c)))
				}
			}
		}
	}
}

// nameIn returns the name of the Secret in the body of a request.
func nameIn(r *http.Request) string {
	if r.GetBody == nil {
		return ""
	}
	var secret corev1.Secret
	_ = json.Unmarshal([]byte(bodyOf(r)), &secret) // a deletion has no body
	return secret.Name
}
