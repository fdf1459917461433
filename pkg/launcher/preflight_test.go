package launcher_test

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// bad returns the findings that have failed, and those that warn, by their names.
func bad(t *testing.T, findings iter.Seq[launcher.Finding]) (failed, warned []string) {
	t.Helper()
	for name, v := range verdicts(t, slices.Collect(findings)) {
		switch v {
		case launcher.Failed:
			failed = append(failed, name)
		case launcher.Warned:
			warned = append(warned, name)
		}
	}
	slices.Sort(failed)
	slices.Sort(warned)
	return failed, warned
}

// account returns the configuration of a new service account with these rules,
// once the API server knows of them.
func account(t *testing.T, c *launchertest.Cluster, name string, rules ...rbacv1.PolicyRule) *rest.Config {
	t.Helper()
	ctx, api, meta := t.Context(), c.API(t), metav1.ObjectMeta{Name: name}
	_, err1 := api.CoreV1().ServiceAccounts(c.Namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	_, err2 := api.RbacV1().Roles(c.Namespace).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
	_, err3 := api.RbacV1().RoleBindings(c.Namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: c.Namespace}},
	}, metav1.CreateOptions{})
	config, err4 := c.Account(ctx, name)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	for k := (&launcher.Kubernetes{Config: config, Namespace: c.Namespace, Identity: &c.Identity}); ; {
		if failed, _ := bad(t, k.Preflight(ctx, launcher.Spec{})); !slices.Contains(failed, "permission on pods") {
			break
		}
	}
	if ctx.Err() != nil {
		t.Fatal("the API server does not know the role within three minutes")
	}
	return config
}

var leaseRule = rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "create", "update", "delete"}}

var podRules = []rbacv1.PolicyRule{
	{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "watch", "create", "patch", "delete"}},
	{APIGroups: []string{""}, Resources: []string{"pods/portforward"}, Verbs: []string{"get", "create"}},
}

func TestPreflightTakesWhatTheSpecDoesWithoutForAWarning(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k := c.Launcher()
	if failed, warned := bad(t, k.Preflight(t.Context(), c.Spec("a"))); failed != nil || warned != nil {
		t.Errorf("with the Role: %q failed, %q warned", failed, warned)
	}
	k = c.Launcher()
	k.Config = account(t, c, "pods-only", podRules...)
	failed, warned := bad(t, k.Preflight(t.Context(), c.Spec("a")))
	if strings.Join(failed, ", ") != "permission on leases" || strings.Join(warned, ", ") != "permission on events, permission on leases (list)" {
		t.Errorf("without the rest of it: %q failed, %q warned", failed, warned)
	}
}

func TestPreflightSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	nobody, err := c.Account(t.Context(), "default")
	if err != nil {
		t.Fatal(err)
	}
	away := rest.CopyConfig(c.Orchestrator)
	away.Host = "https://127.0.0.1:1"
	const needed = "permission on leases, permission on pods, permission on pods/portforward"
	for name, tt := range map[string]struct {
		change func(*launcher.Kubernetes, *launcher.Spec)
		fails  string
	}{
		"no permissions":  {func(k *launcher.Kubernetes, _ *launcher.Spec) { k.Config = nobody }, needed},
		"no API server":   {func(k *launcher.Kubernetes, _ *launcher.Spec) { k.Config = away }, "API server"},
		"no namespace":    {func(k *launcher.Kubernetes, _ *launcher.Spec) { k.Config, k.Namespace = c.Admin, "nowhere" }, "namespace"},
		"no such profile": {func(_ *launcher.Kubernetes, s *launcher.Spec) { s.Pod.Profile = "none" }, "specification"},
		"no such way":     {func(k *launcher.Kubernetes, _ *launcher.Spec) { k.Connection = "pigeon" }, "specification"},
		"no exec":         {func(k *launcher.Kubernetes, _ *launcher.Spec) { k.Connection = launcher.ByExec }, "permission on pods/exec"},
		"no exec of gVisor": {
			func(_ *launcher.Kubernetes, s *launcher.Spec) { s.Pod.RuntimeClass = "gvisor" }, "permission on pods/exec",
		},
		"no claims": {
			func(_ *launcher.Kubernetes, s *launcher.Spec) { s.Pod.Workspace.Keep = true }, "permission on persistentvolumeclaims",
		},
		"no identity": {
			func(k *launcher.Kubernetes, _ *launcher.Spec) { k.Identity, k.IdentityFile = nil, t.TempDir() }, "identity",
		},
		"no Secret": {
			func(k *launcher.Kubernetes, _ *launcher.Spec) { k.Identity, k.IdentitySecret = nil, "key" },
			"identity, permission on secrets (get)",
		},
	} {
		k, spec := c.Launcher(), c.Spec("a")
		tt.change(k, &spec)
		if failed, _ := bad(t, k.Preflight(t.Context(), spec)); strings.Join(failed, ", ") != tt.fails {
			t.Errorf("%s: %q failed, not %s", name, failed, tt.fails)
		}
	}
}

func TestPreflightMakesNothing(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	file, secret := c.Launcher(), c.Launcher()
	path := filepath.Join(t.TempDir(), "dir", "identity.pem")
	file.Identity, file.IdentityFile = nil, path
	secret.Identity, secret.IdentitySecret, secret.Config = nil, "key", c.Admin
	for _, k := range []*launcher.Kubernetes{file, secret} {
		if failed, warned := bad(t, k.Preflight(t.Context(), c.Spec("a"))); failed != nil || warned != nil {
			t.Errorf("%q failed, %q warned", failed, warned)
		}
	}
	if _, err := os.Stat(filepath.Dir(path)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an identity is there: %v", err)
	}
	if _, err := c.API(t).CoreV1().Secrets(c.Namespace).Get(t.Context(), "key", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a Secret is there: %v", err)
	}
	if n := podsLeft(t, c); n != 0 {
		t.Errorf("%d pods are there", n)
	}
	// One that may read the Secret, but not make it, needs one that is there.
	reader := c.Launcher()
	reader.Identity, reader.IdentitySecret = nil, "key"
	reader.Config = account(t, c, "reader", append(podRules, leaseRule,
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"key"}, Verbs: []string{"get"}})...)
	if failed, _ := bad(t, reader.Preflight(t.Context(), c.Spec("a"))); strings.Join(failed, ", ") != "identity" {
		t.Errorf("%q failed without the Secret", failed)
	}
	if _, err := launcher.IdentitySecret(t.Context(), c.API(t), c.Namespace, "key"); err != nil {
		t.Fatal(err)
	}
	if failed, _ := bad(t, reader.Preflight(t.Context(), c.Spec("a"))); failed != nil {
		t.Errorf("%q failed with the Secret", failed)
	}
}
