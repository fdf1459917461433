package e2e

// Reasons for which a cluster refuses a snapshot.

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/tools/sessionstore"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

func TestSessionStoreSaysThatAQuotaIsUsedUp(t *testing.T) {
	t.Parallel()
	c := sessionCluster(t)
	s := clusterStore(t, c)
	version := save(t, s, "a", []byte("1"), "")
	quotas := c.API(t).CoreV1().ResourceQuotas(c.Namespace)
	_, err := quotas.Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "few-secrets"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/secrets": resource.MustParse("3")}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	harness.Await(t, "the quota", func() bool {
		q, err := quotas.Get(t.Context(), "few-secrets", metav1.GetOptions{})
		return err == nil && len(q.Status.Hard) > 0
	})
	_, err = s.Save(t.Context(), "a", make([]byte, 5<<20), version)
	if err == nil || !strings.Contains(err.Error(), "exceeded quota: few-secrets") || strings.Contains(err.Error(), "rbac") || strings.Contains(err.Error(), "\n") {
		t.Errorf("a snapshot over the quota: %v", err)
	}
	if got := load(t, s, "a"); got.Version != version || string(got.Data) != "1" {
		t.Errorf("the snapshot is %q", got.Data)
	}
	if n := len(secretsOf(t, c)); n != 1 {
		t.Errorf("there are %d Secrets", n)
	}
}

func TestSessionStoreSaysThatAPermissionIsMissing(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	s := clusterStore(t, c)
	_, loadErr := s.Load(t.Context(), "a")
	_, saveErr := s.Save(t.Context(), "a", nil, "")
	for _, err := range []error{loadErr, saveErr, s.Delete(t.Context(), "a")} {
		if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, sessionstore.ErrConflict) ||
			!strings.Contains(err.Error(), "deploy/session-rbac.yaml") || !strings.Contains(err.Error(), `cannot get resource "secrets"`) {
			t.Errorf("without a permission: %v", err)
		}
	}
}

// TestSessionStoreTellsADamagedSnapshot removes parts that a snapshot needs.
func TestSessionStoreTellsADamagedSnapshot(t *testing.T) {
	t.Parallel()
	c := sessionCluster(t)
	s := clusterStore(t, c)
	save(t, s, "a", make([]byte, 2<<20), "")
	secrets := c.API(t).CoreV1().Secrets(c.Namespace)
	for _, secret := range secretsOf(t, c) {
		if secret.Immutable != nil {
			if err := secrets.Delete(t.Context(), secret.Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	if _, err := s.Load(t.Context(), "a"); err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "a part of it is missing") {
		t.Errorf("without a part: %v", err)
	}
	if err := s.Delete(t.Context(), "a"); err != nil || len(secretsOf(t, c)) != 0 {
		t.Errorf("%v, and %d Secrets are left", err, len(secretsOf(t, c)))
	}
}
