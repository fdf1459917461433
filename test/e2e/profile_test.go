package e2e

// What a pod may do, and what deploy/ lets an orchestrator do.

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

func TestPodIsSecureByDefault(t *testing.T) {
	c := launchertest.NewCluster(t, launcher.Restricted) // which the cluster enforces
	s := launch(t, c.Launcher(), c.Spec("a"))
	script := `id -u; ls /var/run/secrets/kubernetes.io 2>&1; grep -E '^(CapEff|NoNewPrivs|Seccomp):' /proc/self/status; touch ~/x && echo home; touch /usr/x 2>&1`
	out, _, _ := run(t, s, script, nil)
	want := []string{
		"1000", "ls: cannot access '/var/run/secrets/kubernetes.io': No such file or directory",
		"CapEff:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2", "home", "touch: cannot touch '/usr/x': Permission denied",
	}
	if got := strings.Split(strings.TrimSpace(out), "\n"); !cmp.Equal(got, want) {
		t.Errorf("inside: %s", cmp.Diff(want, got))
	}
}

func TestBaselineIsRoot(t *testing.T) {
	c := launchertest.NewCluster(t, launcher.Baseline)
	spec := c.Spec("a")
	spec.Pod.Profile = launcher.Baseline
	s := launch(t, c.Launcher(), spec)
	// What apt does: files of root's, and another user's.
	if out, errOut, _ := run(t, s, "id -u; touch /usr/x && chown daemon /usr/x && dpkg --configure -a && echo done", nil); out != "0\ndone\n" {
		t.Errorf("inside: %q, %q", out, errOut)
	}
}

// An image that was not made for pods of any profile: on another base, with
// another user.
func TestImageOfOnesOwnWorks(t *testing.T) {
	c := launchertest.NewCluster(t, launcher.Restricted)
	spec := c.Spec("a")
	spec.Pod.Image = "podagent.test/embedded:dev"
	s := launch(t, c.Launcher(), spec)
	put(t, s, "file", "x")
	if out, _, _ := run(t, s, "cat file; id -u", nil); out != "x1000\n" {
		t.Errorf("inside: %q", out)
	}
}

func TestDeployManifestsAreValid(t *testing.T) {
	c := launchertest.NewCluster(t, launcher.Restricted)
	files, err := filepath.Glob("../../deploy/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// rbac.yaml is applied by NewCluster; a kustomization is no object.
	files = slices.DeleteFunc(files, func(f string) bool {
		return slices.Contains([]string{"rbac.yaml", "kustomization.yaml", "namespace.yaml"}, filepath.Base(f))
	})
	if len(files) < 4 {
		t.Fatalf("there are only %q", files)
	}
	for _, f := range files {
		if err := c.Apply(t.Context(), f); err != nil {
			t.Error(err)
		}
	}
	if err := kubectl(t, c, "apply", "--kustomize", "../../deploy", "--namespace", "podagent", "--dry-run=client", "--validate=strict")(); err != nil {
		t.Error(err)
	}
	// All of it lets a sandbox work, with the Role of the tests.
	s := launch(t, c.Launcher(), c.Spec("a"))
	put(t, s, "file", "x")
	if pod := podOf(t, c, "a"); pod.Spec.Containers[0].Resources.Limits.Memory().IsZero() {
		t.Error("the LimitRange gave the pod no limit")
	}
}

func TestTheRoleAllowsNoExec(t *testing.T) {
	c := launchertest.NewCluster(t, launcher.Restricted)
	client, err := kubernetes.NewForConfig(c.Orchestrator)
	if err != nil {
		t.Fatal(err)
	}
	for _, sub := range []string{"exec", "attach", "ephemeralcontainers", "portforward"} {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: c.Namespace, Verb: "create", Resource: "pods", Subresource: sub},
		}}
		got, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if want := sub == "portforward"; got.Status.Allowed != want {
			t.Errorf("pods/%s is allowed: %v", sub, got.Status.Allowed)
		}
	}
	if _, err := client.CoreV1().Secrets(c.Namespace).List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("listing secrets: %v", err)
	}
}

// kubectlProgram returns the path of the kubectl that came with the cluster, or
// else of the one in PATH.
func kubectlProgram(t testing.TB, c *launchertest.Cluster) string {
	t.Helper()
	program := filepath.Join(filepath.Dir(c.Kubeconfig), "bin", "kubectl")
	if _, err := os.Stat(program); err != nil {
		if program, err = exec.LookPath("kubectl"); err != nil {
			t.Fatalf("there is no kubectl beside the kubeconfig, in bin/, and %v", err)
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
