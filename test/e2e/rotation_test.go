package e2e

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// sharing returns a launcher as each orchestrator has that shares an identity in a Secret.
func sharing(c *launchertest.Cluster) *launcher.Kubernetes {
	l := c.Launcher()
	l.Config, l.Identity, l.IdentitySecret = rest.CopyConfig(c.Admin), nil, "shared"
	return l
}

// busy calls a sandbox without a pause, unless it is held.
type busy struct {
	sync.Mutex // held to keep it from calling
	calls      int
	errs       []error
	over       chan struct{}
	ended      sync.WaitGroup
}

func callWithoutPause(t *testing.T, s *launcher.Sandbox) *busy {
	b := &busy{over: make(chan struct{})}
	b.ended.Go(func() {
		for {
			select {
			case <-b.over:
				return
			default:
				b.call(t, s)
			}
		}
	})
	t.Cleanup(func() {
		close(b.over)
		b.ended.Wait()
	})
	return b
}

func (b *busy) call(t *testing.T, s *launcher.Sandbox) {
	b.Lock()
	defer b.Unlock()
	content := fmt.Sprint(b.calls)
	err := s.WriteFile(t.Context(), "busy", []byte(content), 0o600)
	if err == nil {
		var got []byte
		if got, err = s.ReadFile(t.Context(), "busy"); err == nil && string(got) != content {
			err = fmt.Errorf("it reads %q, not %q", got, content)
		}
	}
	b.calls++
	if err != nil {
		b.errs = append(b.errs, fmt.Errorf("call %d: %w", b.calls, err))
	}
}

// awaitMore waits until some more calls have succeeded.
func (b *busy) awaitMore(t *testing.T) {
	t.Helper()
	b.Lock()
	before := b.calls
	b.Unlock()
	harness.Await(t, "more calls", func() bool {
		b.Lock()
		defer b.Unlock()
		return b.calls > before+20
	})
	b.Lock()
	defer b.Unlock()
	for _, err := range b.errs {
		t.Error(err)
	}
	b.errs = nil
}

// restart ends the agent of a sandbox, and waits for the next one. What is under way then
// would be lost with it.
func (b *busy) restart(t *testing.T, c *launchertest.Cluster, s *launcher.Sandbox) {
	t.Helper()
	b.Lock()
	defer b.Unlock()
	boot := harness.BootOf(t, s)
	c.KillAgent(t, podUID(t, s))
	harness.Await(t, "the next agent", func() bool {
		info, err := s.Info(t.Context())
		return err == nil && info.BootID != boot
	})
}

func TestRotationUnderOpenSandboxesLosesNoCall(t *testing.T) { overEachWayHarmed(t, testRotation) }

func testRotation(t *testing.T, c *launchertest.Cluster) {
	host, admin := sharing(c), sharing(c)
	s := harness.Launch(t, host, c.Spec("open"))
	kept := keptSpec(t, c, "kept")
	harness.Put(t, harness.Launch(t, host, kept), "file", "kept")
	if err := host.Pause(t.Context(), "kept"); err != nil {
		t.Fatal(err)
	}
	older, err := launcher.IdentitySecret(t.Context(), c.API(t), c.Namespace, "shared")
	if err != nil {
		t.Fatal(err)
	}
	calls := callWithoutPause(t, s)
	calls.awaitMore(t)

	v, err := admin.RotateIdentity(t.Context(), 0)
	if err != nil || v.Version != 2 {
		t.Fatalf("rotated: %+v, %v", v, err)
	}
	calls.awaitMore(t)
	calls.restart(t, c, s)
	calls.awaitMore(t)
	if err := admin.RetireIdentity(t.Context(), 2); err == nil {
		t.Error("the newest key is retired")
	}
	harness.Await(t, "the retirement", func() bool { // other orchestrators must have seen the new key
		err = admin.RetireIdentity(t.Context(), 1)
		return err == nil
	})
	calls.awaitMore(t)
	calls.restart(t, c, s)
	calls.awaitMore(t)

	stranger := c.Launcher()
	stranger.Identity = &older
	annotate(t, c, podOf(t, c, "open").Name, podmeta.AnnotationKey, older.AuthorizedKey().Fingerprint())
	if _, err := stranger.Open(t.Context(), "open"); !errors.Is(err, podapi.ErrUnauthenticated) {
		t.Errorf("with the retired key: %v", err)
	}
	annotate(t, c, podOf(t, c, "open").Name, podmeta.AnnotationKey, v.Key)
	again, err := host.Resume(t.Context(), "kept")
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	wantKept(t, again)
	versions, err := host.IdentityVersions(t.Context())
	if err != nil || len(versions) != 1 || versions[0].Key != v.Key {
		t.Errorf("the versions: %+v, %v", versions, err)
	}
	if _, err := c.API(t).CoreV1().Secrets(c.Namespace).Get(t.Context(), "shared", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the first Secret: %v", err)
	}
}

// Whoever may change a pod's annotations cannot have its agent accept a key.
func TestKeychainOfAStrangerIsNotBelieved(t *testing.T) {
	t.Parallel()
	c := launchertest.OwnCluster(t, launcher.Restricted)
	host := sharing(c)
	s := harness.Launch(t, host, c.Spec("open"))
	calls := callWithoutPause(t, s)
	stranger, err := podapi.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	pod := podOf(t, c, "open")
	annotate(t, c, pod.Name, podmeta.AnnotationKeychain, "AAAA,"+stranger.AuthorizedKey().String())
	annotate(t, c, pod.Name, podmeta.AnnotationKey, stranger.AuthorizedKey().Fingerprint())
	calls.restart(t, c, s)
	calls.awaitMore(t)
	l := c.Launcher()
	l.Identity = &stranger
	if _, err := l.Open(t.Context(), "open"); !errors.Is(err, podapi.ErrUnauthenticated) {
		t.Errorf("the stranger: %v", err)
	}
	annotate(t, c, pod.Name, podmeta.AnnotationKey, "")
	fresh := sharing(c)
	if _, err := fresh.Open(t.Context(), "open"); !errors.Is(err, launcher.ErrOtherKey) {
		t.Errorf("a pod that names no key: %v", err)
	}
	versions, err := fresh.IdentityVersions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	annotate(t, c, pod.Name, podmeta.AnnotationKey, versions[0].Key)
	if _, err := fresh.RotateIdentity(t.Context(), time.Hour); err != nil { // it leaves out the stranger's link
		t.Fatal(err)
	}
	calls.restart(t, c, s)
	calls.awaitMore(t)
	versions, err = fresh.IdentityVersions(t.Context())
	if err != nil || !slices.EqualFunc(versions, []int{2, 1}, func(v launcher.IdentityVersion, n int) bool { return v.Version == n }) || time.Until(versions[0].Expires) > time.Hour {
		t.Errorf("the versions: %+v, %v", versions, err)
	}
}
