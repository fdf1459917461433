package e2e

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// A client repeats a request whose answer was lost, and then meets what it has made itself. The
// launch ends in one sandbox all the same.
func TestLaunchWhoseRequestIsRepeated(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		method, kind string
		pool         bool
	}{
		"of the pod":     {http.MethodPost, "/pods", false},
		"of the holding": {http.MethodPost, "/leases", true},
		"of the taking":  {http.MethodPatch, "/pods/warm-", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := launchertest.NewCluster(t, launcher.Restricted)
			k := c.Launcher()
			repeated := false
			k.Config = repeating(k.Config, func(r *http.Request) bool {
				return r.Method == test.method && strings.Contains(r.URL.Path, test.kind)
			}, &repeated)
			spec := c.Spec("")
			if test.pool {
				harness.PoolOf(t, c, 2)
				spec = harness.Pooled(c, "")
			}
			s := harness.Launch(t, k, spec)
			if out, _, err := harness.Run(t, s, "echo hi", nil); out != "hi\n" {
				t.Errorf("it says %q: %v", out, err)
			}
			if n := harness.SandboxPods(t, c, s.ID); n != 1 || !repeated {
				t.Errorf("it has %d pods; the request was repeated: %v", n, repeated)
			}
		})
	}
}

// repeating sends the first request of a kind twice, and gives the second answer.
func repeating(config *rest.Config, kind func(*http.Request) bool, repeated *bool) *rest.Config {
	config = rest.CopyConfig(config)
	var once sync.Once
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if !kind(r) {
				return next.RoundTrip(r)
			}
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return nil, err
			}
			send := func() (*http.Response, error) {
				r.Body = io.NopCloser(bytes.NewReader(body))
				return next.RoundTrip(r)
			}
			once.Do(func() {
				var first *http.Response
				if first, err = send(); err == nil {
					*repeated = true
					err = first.Body.Close()
				}
			})
			if err != nil {
				return nil, err
			}
			return send()
		})
	})
	return config
}
