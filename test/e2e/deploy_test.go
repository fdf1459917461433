package e2e

// A cluster after deploy/ is applied as its README says.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi/wayout"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

func TestDeployManifestsAreValid(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	files, err := filepath.Glob("../../deploy/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// NewCluster applies rbac.yaml, and a kustomization is not an object. What is not in a
	// namespace has tests of its own.
	files = slices.DeleteFunc(files, func(f string) bool {
		return slices.Contains([]string{"rbac.yaml", "kustomization.yaml", "namespace.yaml", "admission-policy.yaml"}, filepath.Base(f))
	})
	if len(files) < 4 {
		t.Fatalf("there are only %q", files)
	}
	for _, f := range files {
		if err := c.Apply(t.Context(), f); err != nil {
			t.Error(err)
		}
	}
	if err := kubectl(t, c, "apply", "--kustomize", "../../deploy", "--namespace", "", "--dry-run=client", "--validate=strict")(); err != nil {
		t.Error(err)
	}
	harness.Await(t, "the quota", func() bool {
		quotas, err := c.API(t).CoreV1().ResourceQuotas(c.Namespace).List(t.Context(), metav1.ListOptions{})
		return err == nil && !slices.ContainsFunc(quotas.Items, func(q corev1.ResourceQuota) bool { return len(q.Status.Hard) == 0 })
	})
	// With everything applied, a sandbox works with the Role of the tests.
	spec := c.Spec("a")
	spec.Pod.Resources.Limits = noMemoryLimit
	s := harness.Launch(t, c.Launcher(), spec)
	harness.Put(t, s, "file", "x")
	if pod := podOf(t, c, "a"); pod.Spec.Containers[0].Resources.Limits.Memory().IsZero() {
		t.Error("the LimitRange gave the pod no limit")
	}
}

func TestTheRoleAllowsNoExec(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	for _, refused := range []string{"create pods/exec", "create pods/attach", "create pods/ephemeralcontainers", "list secrets"} {
		if may(t, c, refused) {
			t.Errorf("it may %s", refused)
		}
	}
	if !may(t, c, "create pods/portforward") {
		t.Error("it may not make port-forwards")
	}
}

// may reports whether the account may do something in the namespace: VERB
// [GROUP:]RESOURCE[/SUBRESOURCE] [NAME].
func may(t *testing.T, c *launchertest.Cluster, what string) bool {
	t.Helper()
	verb, of, _ := strings.Cut(what, " ")
	of, name, _ := strings.Cut(of, " ")
	group, resource, grouped := strings.Cut(of, ":")
	if !grouped {
		group, resource = "", of
	}
	resource, sub, _ := strings.Cut(resource, "/")
	client, err := kubernetes.NewForConfig(c.Orchestrator)
	if err != nil {
		t.Fatal(err)
	}
	got, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: c.Namespace, Verb: verb, Group: group, Resource: resource, Subresource: sub, Name: name,
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return got.Status.Allowed
}

// applied returns the cluster with the namespaces that "kubectl apply -k" creates
// from deploy/, under other names.
func applied(t *testing.T, c *launchertest.Cluster) *launchertest.Cluster {
	t.Helper()
	by := *c
	by.Namespace = c.Namespace + "-applied"
	system := by.Namespace + "-system"
	dir := t.TempDir()
	for _, name := range []string{"kustomization.yaml", "namespace.yaml", "rbac.yaml", "networkpolicy.yaml", "networkpolicy-egress.yaml"} {
		data, err := os.ReadFile(filepath.Join("../../deploy", name))
		if err != nil {
			t.Fatal(err)
		}
		text := strings.NewReplacer("namespace: podagent\n", "namespace: "+by.Namespace+"\n", "namespace: podagent-system\n", "namespace: "+system+"\n").Replace(string(data))
		if name == "namespace.yaml" {
			text = strings.NewReplacer("name: podagent\n", "name: "+by.Namespace+"\n", "name: podagent-system\n", "name: "+system+"\n").Replace(text)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for _, name := range []string{by.Namespace, system} {
			err := c.API(t).CoreV1().Namespaces().Delete(context.Background(), name, metav1.DeleteOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				t.Error(err)
			}
		}
	})
	if err := kubectl(t, &by, "apply", "--kustomize", dir, "--namespace", "")(); err != nil {
		t.Fatal(err)
	}
	harness.Await(t, "the namespace's account", func() bool {
		_, err := c.API(t).CoreV1().ServiceAccounts(by.Namespace).Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil
	})
	in := by
	in.Namespace = system
	var err error
	if by.Orchestrator, err = in.Account(t.Context(), "podagent-orchestrator"); err != nil {
		t.Fatal(err)
	}
	awaitRights(t, &by)
	return &by
}

func TestNamespaceThatIsAppliedHoldsRestrictedSandboxesAlone(t *testing.T) {
	t.Parallel()
	c := applied(t, launchertest.NewCluster(t, launcher.Baseline))
	s := harness.Launch(t, c.Launcher(), c.Spec("a"))
	harness.Put(t, s, "file", "x")
	spec := c.Spec("b")
	spec.Pod.Profile = launcher.Baseline
	if _, err := c.Launcher().Launch(t.Context(), spec); !errors.Is(err, launcher.ErrRejected) || !strings.Contains(err.Error(), "PodSecurity") {
		t.Errorf("a baseline pod: %v", err)
	}
	list, err := c.API(t).NetworkingV1().NetworkPolicies(c.Namespace).List(t.Context(), metav1.ListOptions{})
	var names []string
	for _, policy := range list.Items { // by name
		names = append(names, policy.Name)
	}
	if want := []string{"podagent-egress", "podagent-no-ingress"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("the policies are %v, %v, want %v", names, err, want)
	}
}

// awaitRights waits until the API server knows the new Role.
func awaitRights(t *testing.T, c *launchertest.Cluster) {
	t.Helper()
	harness.Await(t, "the rights of the Role", func() bool {
		_, err := c.Launcher().List(t.Context())
		return err == nil
	})
}

// Each policy must select the pods of sandboxes, and the port on which their agents
// listen. What policies then refuse depends on the cluster: networkpolicy_test.go
// tries them on the one of "make cluster", which enforces them.
func TestNetworkPoliciesAreOfSandboxes(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted).By(t, launcher.ByAddress)
	for _, name := range []string{"networkpolicy.yaml", "networkpolicy-address.yaml", "networkpolicy-no-egress.yaml", "networkpolicy-egress.yaml"} {
		if err := c.Apply(t.Context(), filepath.Join("../../deploy", name)); err != nil {
			t.Fatal(err)
		}
	}
	harness.Launch(t, c.Launcher(), c.Spec("a"))
	tunnelled := c.Spec("b")
	tunnelled.Egress.Mode = wayout.Auto
	harness.Launch(t, c.Launcher(), tunnelled)
	pod := podOf(t, c, "a")
	pods := map[bool]*corev1.Pod{false: pod, true: podOf(t, c, "b")}
	list, err := c.API(t).NetworkingV1().NetworkPolicies(c.Namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 4 {
		t.Fatalf("there are %d policies, %v", len(list.Items), err)
	}
	for _, policy := range list.Items {
		of, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
		if err != nil || of.Empty() {
			t.Fatalf("%s is of %v (%v)", policy.Name, of, err)
		}
		for isTunnelled, pod := range pods {
			not := map[bool]string{false: "podagent-egress", true: "podagent-no-egress"}[isTunnelled]
			if of.Matches(labels.Set(pod.Labels)) != (policy.Name != not) {
				t.Errorf("%s is of %v, and the pod has %v", policy.Name, of, pod.Labels)
			}
		}
		ingress := slices.Contains(policy.Spec.PolicyTypes, networkingv1.PolicyTypeIngress)
		if want := map[string]int{"podagent-address": 1}[policy.Name]; ingress && len(policy.Spec.Ingress) != want {
			t.Errorf("%s admits with %d rules", policy.Name, len(policy.Spec.Ingress))
		}
		for _, rule := range policy.Spec.Ingress {
			if len(rule.Ports) != 1 || len(rule.From) != 1 || !strings.HasSuffix(listensOn(pod), ":"+rule.Ports[0].Port.String()) {
				t.Errorf("%s admits %v at %v, but the agent listens on %s", policy.Name, rule.From, rule.Ports, listensOn(pod))
			}
		}
	}
}

// listensOn returns the address on which the agent of a pod listens.
func listensOn(pod *corev1.Pod) string {
	for _, v := range pod.Spec.Containers[0].Env {
		if v.Name == "PODAGENT_LISTEN" {
			return v.Value
		}
	}
	return ""
}

// kubectlProgram returns the path of the kubectl that belongs to the cluster, or
// else of the one in PATH.
func kubectlProgram(t testing.TB, c *launchertest.Cluster) string {
	t.Helper()
	program := filepath.Join(filepath.Dir(c.Kubeconfig), "bin", "kubectl")
	if _, err := os.Stat(program); err != nil {
		if program, err = exec.LookPath("kubectl"); err != nil {
			t.Fatalf("there is no kubectl in bin/ beside the kubeconfig, and %v", err)
		}
	}
	return program
}

// kubectl returns a call of kubectl.
func kubectl(t testing.TB, c *launchertest.Cluster, args ...string) func() error {
	t.Helper()
	program := kubectlProgram(t, c)
	args = append([]string{"--kubeconfig", c.Kubeconfig, "--namespace", c.Namespace}, args...)
	return func() error {
		if out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput(); err != nil {
			return fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, out)
		}
		return nil
	}
}
