package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
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
	if err != nil || v.Version != 2 || v.Sandboxes != 1 || v.Others != 0 {
		t.Fatalf("rotated: %+v, %v", v, err)
	}
	calls.awaitMore(t)
	calls.restart(t, c, s)
	calls.awaitMore(t)
	if _, err := admin.RetireIdentity(t.Context(), 2, false); err == nil {
		t.Error("the newest key is retired")
	}
	between := keptSpec(t, c, "between") // its agent is started with both keys
	harness.Put(t, harness.Launch(t, host, between), "file", "kept")
	if err := host.Pause(t.Context(), "between"); err != nil {
		t.Fatal(err)
	}
	annotate(t, c, podOf(t, c, "open").Name, podmeta.AnnotationKeychain, "") // the agent knows better
	if v, err := admin.RetireIdentity(t.Context(), 1, false); err != nil || v.Version != 1 || v.Sandboxes != 1 {
		t.Fatalf("retired: %+v, %v", v, err)
	}
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
	for _, id := range []string{"kept", "between"} {
		again, err := host.Resume(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close()
		wantKept(t, again)
	}
	versions, err := host.IdentityVersions(t.Context())
	if err != nil || len(versions) != 1 || versions[0].Key != v.Key {
		t.Errorf("the versions: %+v, %v", versions, err)
	}
}

// What is not ours, or is no sandbox at all, neither holds up a rotation nor takes part in it.
func TestRotationLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	mine, theirs := sharing(c), c.Launcher()
	harness.Launch(t, mine, c.Spec("mine"))
	s := harness.Launch(t, theirs, c.Spec("theirs"))
	apart := podOf(t, c, "theirs").DeepCopy()
	apart.ObjectMeta = metav1.ObjectMeta{Name: "no-agent", Labels: apart.Labels}
	apart.Spec.NodeName, apart.Spec.Containers[0].Name = "", "other"
	if _, err := c.API(t).CoreV1().Pods(c.Namespace).Create(t.Context(), apart, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	v, err := mine.RotateIdentity(t.Context(), 0)
	if err != nil || v.Sandboxes != 1 || v.Others != 1 {
		t.Errorf("rotated: %+v, %v", v, err)
	}
	harness.Put(t, s, "file", "x")
	limited := sharing(c)
	limited.Config = c.LimitedAccount(t, "limited",
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"shared"}, Verbs: []string{"get", "update"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "patch"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods/portforward"}, Verbs: []string{"get", "create"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"persistentvolumeclaims"}, Verbs: []string{"list"}})
	if _, err := limited.RetireIdentity(t.Context(), 1, false); !errors.Is(err, launcher.ErrForbidden) {
		t.Errorf("a user who may not look for sandboxes elsewhere retires: %v", err)
	}
	list, err := mine.IdentityVersions(t.Context())
	if err != nil || len(list) != 2 || !list[1].Retiring.IsZero() {
		t.Errorf("the versions: %+v, %v", list, err)
	}
	if v, err := limited.RetireIdentity(t.Context(), 1, true); err != nil || v.Others != 1 {
		t.Errorf("retired: %+v, %v", v, err)
	}
}

// An identity in a Secret of an earlier version cannot be changed, and the error says how to
// have one that can.
func TestIdentityInAnImmutableSecretSaysHowToRotateIt(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k := sharing(c)
	if _, err := k.IdentityVersions(t.Context()); err != nil {
		t.Fatal(err)
	}
	secrets := c.API(t).CoreV1().Secrets(c.Namespace)
	secret, err := secrets.Get(t.Context(), "shared", metav1.GetOptions{})
	if err == nil {
		secret.Immutable = new(true)
		_, err = secrets.Update(t.Context(), secret, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	if v, err := k.RotateIdentity(t.Context(), 0); err == nil || !strings.Contains(err.Error(), "kubectl create secret generic shared -n "+c.Namespace) {
		t.Errorf("rotated: %+v, %v", v, err)
	}
}

// A user who may change a pod's annotations cannot make its agent accept a key.
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
