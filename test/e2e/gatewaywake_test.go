package e2e

// Sandboxes in pods that end while nobody works in them, and go on for the next call.

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// resumer counts how often sandboxes are resumed.
type resumer struct {
	*launcher.Kubernetes
	resumes atomic.Int32
}

func (r *resumer) Resume(ctx context.Context, id string) (*launcher.Sandbox, error) {
	r.resumes.Add(1)
	return r.Kubernetes.Resume(ctx, id)
}

// sleepers are gateways over one cluster, whose sandboxes sleep while nobody works in them.
type sleepers struct {
	gateways
	*launchertest.Cluster
	resumers []*resumer // of each gateway
	handlers []*gateway.Gateway
	key      sshKey // of the tenant
}

func newSleepers(t *testing.T, n int) *sleepers {
	t.Helper()
	c := launchertest.NewCluster(t, launcher.Restricted)
	s := &sleepers{gateways: gateways{T: t}, Cluster: c, key: newSSHKey(t)}
	authorized := filepath.Join(t.TempDir(), "authorized_keys")
	if err := os.WriteFile(authorized, []byte(s.key.line), 0o600); err != nil {
		t.Fatal(err)
	}
	base := c.Spec("")
	base.Pod.Workspace = launcher.Workspace{Size: resource.MustParse("1Gi"), StorageClass: c.Storage(t, 2)}
	for range n {
		r := &resumer{Kubernetes: c.Launcher()}
		handler := gateway.New(gateway.Options{Launcher: r, Tenants: gateway.OneTenant{Name: "acme", Token: "a", SSH: &gateway.AuthorizedKeys{Path: authorized}}, Base: base})
		server := httptest.NewServer(handler)
		t.Cleanup(func() {
			server.Close()
			if err := handler.Close(); err != nil {
				t.Error(err)
			}
		})
		s.urls, s.resumers, s.handlers = append(s.urls, server.URL), append(s.resumers, r), append(s.handlers, handler)
	}
	return s
}

// inPod is what the launcher calls a sandbox of the tenant.
func inPod(name string) string { return "acme." + name }

func (s *sleepers) podUID(name string) types.UID {
	s.Helper()
	return podOf(s.T, s.Cluster, inPod(name)).UID
}

// awaitState waits until the cluster itself says that the sandbox is in this state.
func (s *sleepers) awaitState(name string, want launcher.State) {
	s.Helper()
	k := s.Launcher()
	harness.Await(s.T, name+" is "+string(want), func() bool {
		got, err := k.Find(s.Context(), inPod(name))
		return err == nil && got.State == want
	})
}

// mustHaveResumed expects that no gateway has resumed a sandbox more than once, and all of them
// together this often at least.
func (s *sleepers) mustHaveResumed(least int32) {
	s.Helper()
	var sum int32
	for i, r := range s.resumers {
		n := r.resumes.Load()
		if sum += n; n > 1 {
			s.Errorf("gateway %d resumed it %d times", i, n)
		}
	}
	if sum < least || least == 0 && sum > 0 {
		s.Errorf("it was resumed %d times, want %d at least, and none for 0", sum, least)
	}
}

// routed sends a request to a port of the sandbox, at which nothing listens.
func (s *sleepers) routed(i int, name string) (int, string) {
	req, err := http.NewRequestWithContext(s.Context(), http.MethodGet, s.urls[i%len(s.urls)], nil)
	if err != nil {
		s.Error(err)
		return 0, ""
	}
	req.Header.Set("Authorization", "Bearer a")
	req.Header.Set("X-Sandbox-ID", name)
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		s.Error(err)
		return 0, ""
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		s.Error(err)
	}
	return r.StatusCode, string(text)
}

// wake calls a sandbox that sleeps often at once: each call finds what was kept.
func (s *sleepers) wake(name string) {
	s.Helper()
	const callers = 100
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			var status, want int
			var text, part string
			switch i / len(s.urls) % 3 {
			case 0:
				want, part = 200, `"stdout":"kept"`
				status, text = s.send(i, "POST", "/"+name+"/exec", `{"script":"cat file"}`)
			case 1:
				want, part = 200, "kept"
				status, text = s.send(i, "GET", "/"+name+"/files?path=file", "")
			case 2:
				want, part = 502, `"class":"no_server"`
				status, text = s.routed(i, name)
			}
			if status != want || !strings.Contains(text, part) {
				s.Errorf("call %d: %d %s, want %d %s", i, status, text, want, part)
			}
		})
	}
	all.Wait()
}

func (s *sleepers) makeSleeper(name string) {
	s.Helper()
	s.must(201, "", "POST", "", fmt.Sprintf(`{"id":%q,"auto_pause":true,"idle_seconds":15}`, name))
	s.must(200, "", "POST", "/"+name+"/exec", `{"script":"printf kept > file"}`)
	for _, r := range s.resumers { // on a busy machine it may have slept already
		r.resumes.Store(0)
	}
}

func TestGatewayWakesASleepingPodOnce(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2} {
		t.Run(fmt.Sprint("gateways=", n), func(t *testing.T) {
			t.Parallel()
			s := newSleepers(t, n)
			s.makeSleeper("job-1")
			before := s.podUID("job-1")
			s.awaitState("job-1", launcher.Ended)
			for range 3 {
				s.must(200, `"state":"paused"`, "GET", "/job-1", "")
				s.must(200, `"id":"job-1"`, "GET", "?state=paused", "")
				s.must(200, `"sandboxes":[]`, "GET", "?state=running", "")
				s.must(409, `"class":"paused"`, "GET", "/job-1/stats", "")
			}
			if s.mustHaveResumed(0); s.podUID("job-1") != before {
				t.Error("looking on has made a pod")
			}
			s.wake("job-1")
			s.mustHaveResumed(1)
			if s.podUID("job-1") == before {
				t.Error("the pod is the one that ended")
			}
		})
	}
}

// A reaper takes the pod away that has ended, and leaves what a call resumes.
func TestGatewayWakesASandboxWhosePodWasReaped(t *testing.T) {
	t.Parallel()
	s := newSleepers(t, 1)
	s.makeSleeper("job-1")
	s.awaitState("job-1", launcher.Ended)
	reaped, err := s.Launcher().Reap(t.Context(), launcher.ReapOptions{StaleAfter: time.Nanosecond})
	if err != nil || len(reaped) != 1 {
		t.Fatalf("reaped are %v: %v", reaped, err)
	}
	s.awaitState("job-1", launcher.Paused)
	s.must(200, `"state":"paused"`, "GET", "/job-1", "")
	s.mustHaveResumed(0)
	s.wake("job-1")
	s.mustHaveResumed(1)
}

// A command that runs on keeps a sandbox awake, unless calls alone count.
func TestIdleByCallsIgnoresACommandThatRunsOn(t *testing.T) {
	t.Parallel()
	s := newSleepers(t, 1)
	for _, by := range []string{"all", "calls"} { // in this order: see below
		s.must(201, "", "POST", "", fmt.Sprintf(`{"id":"by-%s","auto_pause":true,"idle_seconds":5,"idle":%q}`, by, by))
		s.must(202, "", "POST", "/by-"+by+"/exec", `{"args":["sleep","infinity"],"detach":true}`)
	}
	s.awaitState("by-calls", launcher.Ended)
	// The other one was called earlier, so it would have ended before.
	s.must(200, `"state":"paused"`, "GET", "/by-calls", "")
	s.must(200, `"state":"running"`, "GET", "/by-all", "")
	busy, err := s.Launcher().Open(t.Context(), inPod("by-all"))
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	if info, err := busy.Info(t.Context()); err != nil || info.Idle != 0 || info.IdleTimeout != 5*time.Second {
		t.Errorf("it has been idle for %v of %v: %v", info.Idle, info.IdleTimeout, err)
	}
}

func TestGatewayDoesNotWakeASandboxWhoseLifetimeIsOver(t *testing.T) {
	t.Parallel()
	s := newSleepers(t, 1)
	s.must(201, "", "POST", "", `{"id":"job-1","auto_pause":true,"idle_seconds":600,"lifetime_seconds":600}`)
	before := s.podUID("job-1")
	s.must(200, "", "PUT", "/job-1/expires", fmt.Sprintf(`{"at":%q}`, time.Now().Add(10*time.Second).Format(time.RFC3339Nano)))
	s.awaitState("job-1", launcher.Ended)
	isEnded := func() {
		t.Helper()
		s.must(200, `"state":"ended"`, "GET", "/job-1", "")
		s.must(410, `"class":"ended"`, "POST", "/job-1/exec", `{"script":"true"}`)
		if status, text := s.routed(0, "job-1"); status != 410 {
			t.Errorf("routed: %d %s", status, text)
		}
		s.mustHaveResumed(0)
	}
	if isEnded(); s.podUID("job-1") != before {
		t.Error("it has another pod")
	}
	if done, err := s.Launcher().Sweep(t.Context(), inPod("job-1")); !done || err != nil {
		t.Errorf("swept: %v, %v", done, err)
	}
	s.awaitState("job-1", launcher.Paused) // without its pod
	isEnded()
}
