package e2e

// What those reach who may create pods in the sandboxes' namespace, or patch them, and
// nothing else. ARCHITECTURE.md says what stays trusted: a pod may be theirs, and no
// secret of the identity ever is.

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// searchWants are the results of a search in a pod of somebody else's, who may read the
// memory of its agent. The agent's own key must be found, which shows that the search works.
var searchWants = map[string]string{
	"memory":                       `^has the agent's key: true, the caller's: false$`,
	"/proc/1/environ":              `^nothing$`,
	"/proc/1/cmdline":              `^nothing$`,
	"/proc/1/exe":                  `^nothing$`,
	"/proc/1/fd":                   `^nothing$`,
	"/var/run/secrets":             `^nothing$`,
	"/proc/1/root/var/run/secrets": `^nothing$`,
}

// intrude returns an intruder in a sandbox.
func intrude(t *testing.T, c *launchertest.Cluster, s *launcher.Sandbox) intruder {
	t.Helper()
	harness.PutProgram(t, s, "intruder")
	return intruder{s, append(urls(t, c), "INTRUDER_KEY="+c.Identity.AuthorizedKey().String())}
}

func TestCreatorOfPodsMountsNoSecretOfTheIdentity(t *testing.T) {
	t.Parallel()
	c := unlabelled(t) // so that only the policy refuses
	applyPolicy(t, c, `[]`)
	own := &launcher.Kubernetes{Config: c.Admin, Namespace: c.Namespace, IdentitySecret: c.Namespace + "/" + launcher.DefaultIdentitySecret}
	harness.Launch(t, own, c.Spec("a"))
	if _, err := c.API(t).CoreV1().Secrets(c.Namespace).Get(t.Context(), launcher.DefaultIdentitySecret, metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	pods := limited(t, c, "creator", rule("pods", "create")).CoreV1().Pods(c.Namespace)
	for _, spec := range []string{
		`{"volumes": [{"name": "a", "secret": {"secretName": %q}}]}`,
		`{"volumes": [{"name": "a", "projected": {"sources": [{"secret": {"name": %q}}]}}]}`,
		`{"containers": [{"name": "main", "image": "image", "envFrom": [{"secretRef": {"name": %q}}]}]}`,
		`{"containers": [{"name": "main", "image": "image", "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": %q, "key": "identity.pem"}}}]}]}`,
	} {
		pod := podWith(fmt.Sprintf(spec, launcher.DefaultIdentitySecret))
		if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); !isRefused(err) {
			t.Errorf("%s: %v", spec, err)
		}
	}
	if _, err := pods.Create(t.Context(), podWith(`{}`), metav1.CreateOptions{}); err != nil {
		t.Errorf("a pod without Secrets: %v", err)
	}
}

// copyOf returns a pod with the same specification, labels and annotations, as somebody
// could make it who has seen the pod.
func copyOf(pod *corev1.Pod, name string) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.ObjectMeta = metav1.ObjectMeta{Name: name, Labels: pod.Labels, Annotations: pod.Annotations}
	pod.Spec.NodeName, pod.Status = "", corev1.PodStatus{}
	return pod
}

// opened returns a copy of a sandbox's pod whose owner can look into its agent.
func opened(pod *corev1.Pod, name string) *corev1.Pod {
	pod = copyOf(pod, name)
	agent := &pod.Spec.Containers[0]
	pod.Spec.SecurityContext = nil
	agent.SecurityContext = &corev1.SecurityContext{
		RunAsUser: new(int64), Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"SYS_PTRACE"}},
	}
	for i := range agent.Env {
		if agent.Env[i].Name == "PODAGENT_CONFINE" {
			agent.Env[i].Value = "off"
		}
	}
	return pod
}

// The sandbox's pod is the one of its name, whatever others say of themselves.
func TestCreatorOfPodsGetsNoCallsOfASandboxThatHasAPod(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k, pods := c.Launcher(), limited(t, c, "creator", rule("pods", "create")).CoreV1().Pods(c.Namespace)
	s := harness.Launch(t, k, c.Spec("a"))
	boot, pod := harness.BootOf(t, s), podOf(t, c, "a")
	if _, err := pods.Create(t.Context(), copyOf(pod, pod.Name), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("a pod of the sandbox's name: %v", err)
	}
	if _, err := pods.Create(t.Context(), copyOf(pod, "theirs"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	harness.Await(t, "their pod", func() bool {
		theirs, err := c.API(t).CoreV1().Pods(c.Namespace).Get(t.Context(), "theirs", metav1.GetOptions{})
		return err == nil && theirs.Status.Phase == corev1.PodRunning
	})
	for what, open := range map[string]func() (*launcher.Sandbox, error){
		"Open":   func() (*launcher.Sandbox, error) { return c.Launcher().Open(t.Context(), "a") },
		"Launch": func() (*launcher.Sandbox, error) { return c.Launcher().Launch(t.Context(), c.Spec("a")) },
	} {
		again, err := open()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if harness.BootOf(t, again) != boot {
			t.Errorf("%s: somebody else answered", what)
		}
		again.Close()
	}
	terminate(t, k, "a")
	if _, err := k.Open(t.Context(), "a"); !errors.Is(err, launcher.ErrNotFound) {
		t.Errorf("Open of a sandbox without a pod: %v", err)
	}
	if next := harness.Launch(t, k, c.Spec("a")); !next.Created || harness.BootOf(t, next) == boot {
		t.Errorf("the next launch made a pod: %t", next.Created)
	}
}

// A pod of the sandbox's name is taken for it, if there was none. What the launch sends
// gets there, and nothing of the identity.
func TestCreatorOfPodsGetsWhatALaunchSendsAndNoSecretOfTheIdentity(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, "privileged") // its admission lets everything through
	k, pods := c.Launcher(), limited(t, c, "creator", rule("pods", "create")).CoreV1().Pods(c.Namespace)
	spec := c.Spec("a")
	harness.Launch(t, k, spec)
	pod := podOf(t, c, "a")
	terminate(t, k, "a")
	if _, err := pods.Create(t.Context(), opened(pod, pod.Name), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	spec.Env = []string{"SECRET=" + noteSecret}
	s := harness.Launch(t, k, spec)
	if out, _, _ := harness.Run(t, s, "id -u; echo $SECRET", nil); s.Created || out != "0\n"+noteSecret+"\n" {
		t.Errorf("the launch made a pod: %t; inside: %q", s.Created, out)
	}
	i := intrude(t, c, s)
	check(t, i.reports(t, nil, "search"), searchWants)
	checkInvited(t, i, c.Identity) // so a secret would have been found
}

// Who may patch a pod may exchange its image. Their program, for which that of another image
// stands here, then has the pod's place and its environment.
func TestPatcherOfPodsGetsAPodsPlaceAndNoSecretOfTheIdentity(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	spec := c.Spec("a")
	spec.Env = []string{"SECRET=" + noteSecret}
	s := harness.Launch(t, c.Launcher(), spec)
	boot := harness.BootOf(t, s)
	pods := limited(t, c, "patcher", rule("pods", "patch")).CoreV1().Pods(c.Namespace)
	patch := func(spec string) error {
		_, err := pods.Patch(t.Context(), s.PodName(), types.StrategicMergePatchType, []byte(`{"spec": `+spec+`}`), metav1.PatchOptions{})
		return err
	}
	for _, spec := range []string{
		`{"volumes": [{"name": "a", "secret": {"secretName": "podagent-identity"}}]}`,
		`{"serviceAccountName": "podagent-orchestrator"}`,
		`{"containers": [{"name": "agent", "env": [{"name": "PODAGENT_CONFINE", "value": "off"}]}]}`,
		`{"containers": [{"name": "agent", "command": ["sleep", "infinity"]}]}`,
		`{"containers": [{"name": "agent", "securityContext": {"runAsUser": 0}}]}`,
	} {
		if err := patch(spec); !apierrors.IsInvalid(err) {
			t.Errorf("%s: %v", spec, err)
		}
	}
	if err := patch(fmt.Sprintf(`{"containers": [{"name": "agent", "image": %q}]}`, launchertest.ProgramsImage)); err != nil {
		t.Fatal(err)
	}
	harness.Await(t, "their program", func() bool {
		info, err := s.Info(t.Context())
		return err == nil && info.BootID != boot
	})
	if out, _, _ := harness.Run(t, s, "vim --version > vim && echo $SECRET; rm vim", nil); out != noteSecret+"\n" {
		t.Errorf("inside: %q", out)
	}
	check(t, intrude(t, c, s).reports(t, nil, "inside"), insideWants)
}
