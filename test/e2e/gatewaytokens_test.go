package e2e

// Kubernetes service accounts as callers of the gateway, on the real API server.

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// accountsDoor is a gateway in front of local sandboxes, whose callers are service accounts of a
// namespace. It asks the API server as an account that may do nothing but review tokens.
type accountsDoor struct {
	*testing.T
	*launchertest.Cluster
	client kubernetes.Interface
	url    string
}

func newAccountsDoor(t *testing.T) *accountsDoor {
	t.Helper()
	c := launchertest.NewCluster(t, launcher.Restricted)
	d := &accountsDoor{T: t, Cluster: c, client: c.API(t)}
	for _, name := range []string{"gateway", "runner", "builder", "stranger"} {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := d.client.CoreV1().ServiceAccounts(c.Namespace).Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	d.mayReview()
	config, err := c.Account(t.Context(), "gateway")
	if err != nil {
		t.Fatal(err)
	}
	reviewer, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "tenants.yaml")
	text := "tenants:\n  acme:\n    serviceAccounts: [" + c.Namespace + "/runner]\n  other:\n    serviceAccounts: [" + c.Namespace + "/builder]\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	g := gateway.New(gateway.Options{
		Launcher: launchertest.Local(t), Tenants: &gateway.ServiceAccounts{Keys: &gateway.Keys{Path: path}, Client: reviewer},
	})
	server := httptest.NewServer(g)
	t.Cleanup(func() {
		server.Close()
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	d.url = server.URL
	return d
}

// mayReview gives the account gateway the permission that docs/gateway.md names.
func (d *accountsDoor) mayReview() {
	d.Helper()
	api := d.client.RbacV1()
	meta := metav1.ObjectMeta{Name: d.Namespace + "-reviews"}
	_, err := api.ClusterRoles().Create(d.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"},
	}}}, metav1.CreateOptions{})
	if err != nil {
		d.Fatal(err)
	}
	_, err = api.ClusterRoleBindings().Create(d.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "gateway", Namespace: d.Namespace}},
	}, metav1.CreateOptions{})
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(func() {
		for _, remove := range []func(context.Context, string, metav1.DeleteOptions) error{api.ClusterRoleBindings().Delete, api.ClusterRoles().Delete} {
			if err := remove(context.Background(), meta.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				d.Error(err)
			}
		}
	})
}

// token requests a token of an account.
func (d *accountsDoor) token(account string, audiences ...string) string {
	d.Helper()
	got, err := d.client.CoreV1().ServiceAccounts(d.Namespace).CreateToken(d.Context(), account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{Audiences: audiences},
	}, metav1.CreateOptions{})
	if err != nil {
		d.Fatal(err)
	}
	return got.Status.Token
}

// ask sends a request, and returns the status and the answer's text.
func (d *accountsDoor) ask(token, method, path, body string) (int, string) {
	d.Helper()
	req, err := http.NewRequestWithContext(d.Context(), method, d.url+path, strings.NewReader(body))
	if err != nil {
		d.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		d.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		d.Fatal(err)
	}
	return r.StatusCode, string(text)
}

func TestServiceAccountsAreLetIn(t *testing.T) {
	t.Parallel()
	d := newAccountsDoor(t)
	const list, ours = "/api/v1/sandboxes", gateway.DefaultAudience
	runner := d.token("runner", ours)
	var status int
	var text string
	// The API server takes a moment to know the account's permission.
	harness.Await(t, "the first review", func() bool {
		status, text = d.ask(runner, "POST", list, `{"id":"job-1"}`)
		return status != http.StatusServiceUnavailable
	})
	if status != 201 {
		t.Fatalf("an account of a tenant: %d %s", status, text)
	}
	if status, text := d.ask(d.token("builder", ours), "GET", list+"/job-1", ""); status != 404 {
		t.Errorf("an account of another tenant: %d %s", status, text)
	}
	forged := runner[:strings.LastIndex(runner, ".")+1] + strings.Repeat("A", 342)
	for name, wrong := range map[string]string{
		"an account that no tenant has":  d.token("stranger", ours),
		"a token for the API server":     d.token("runner"),
		"a token for somebody else":      d.token("runner", "vault"),
		"a token for others, too":        d.token("runner", ours, "vault"),
		"a token with another signature": forged,
	} {
		if status, text := d.ask(wrong, "GET", list, ""); status != 401 {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	d.opensNothingElse(runner)
}

// opensNothingElse checks that the API server does not take a token for the gateway.
func (d *accountsDoor) opensNothingElse(token string) {
	d.Helper()
	config, err := d.Account(d.Context(), "runner")
	if err != nil {
		d.Fatal(err)
	}
	config.BearerToken = token
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		d.Fatal(err)
	}
	if _, err := client.AuthenticationV1().SelfSubjectReviews().Create(d.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{}); !apierrors.IsUnauthorized(err) {
		d.Errorf("the API server takes the token: %v", err)
	}
}

// The command is watched by an account that is deleted meanwhile.
func TestDeletedServiceAccountIsLetInNoMore(t *testing.T) {
	t.Parallel()
	d := newAccountsDoor(t)
	runner := d.token("runner", gateway.DefaultAudience)
	harness.Await(t, "the first review", func() bool {
		status, _ := d.ask(runner, "POST", "/api/v1/sandboxes", `{"id":"job-1"}`)
		return status == 201
	})
	req, err := http.NewRequestWithContext(t.Context(), "GET", d.url+"/api/v1/sandboxes/job-1/watch?path=.", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+runner)
	r, err := http.DefaultClient.Do(req)
	if err != nil || r.StatusCode != 200 {
		t.Fatalf("%v: %v", r, err)
	}
	defer r.Body.Close()
	if err := d.client.CoreV1().ServiceAccounts(d.Namespace).Delete(t.Context(), "runner", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, r.Body); err == nil {
		t.Error("the watch ended as if it were whole")
	}
	if status, text := d.ask(runner, "GET", "/api/v1/sandboxes", ""); status != 401 {
		t.Errorf("afterwards: %d %s", status, text)
	}
}
