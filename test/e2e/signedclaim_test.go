package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// The tests of this file are about the note in a claim, which says what pod Resume
// makes.

// patcher may do with claims what a storage operator or a backup may, and nothing else.
type patcher struct {
	*testing.T
	api       kubernetes.Interface
	namespace string
}

func newPatcher(t *testing.T, c *launchertest.Cluster) patcher {
	t.Helper()
	return patcher{t, limited(t, c, "patcher", rule("persistentvolumeclaims", "get", "list", "patch", "update")), c.Namespace}
}

// limited returns a client with only this permission in the namespace.
func limited(t *testing.T, c *launchertest.Cluster, name string, permission rbacv1.PolicyRule) kubernetes.Interface {
	t.Helper()
	api, err := kubernetes.NewForConfig(c.LimitedAccount(t, name, permission))
	if err != nil {
		t.Fatal(err)
	}
	return api
}

// note returns the note of a claim.
func (p patcher) note(claim string) string {
	p.Helper()
	got, err := p.api.CoreV1().PersistentVolumeClaims(p.namespace).Get(p.Context(), claim, metav1.GetOptions{})
	if err != nil {
		p.Fatal(err)
	}
	return got.Annotations[podmeta.AnnotationPod]
}

// write replaces the note of a claim; an empty one removes it.
func (p patcher) write(claim, note string) {
	p.Helper()
	var value any = note
	if note == "" {
		value = nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{podmeta.AnnotationPod: value}}})
	if err != nil {
		p.Fatal(err)
	}
	if _, err := p.api.CoreV1().PersistentVolumeClaims(p.namespace).Patch(p.Context(), claim, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		p.Fatal(err)
	}
}

// pausedSandbox launches a sandbox whose workspace is kept, with a file and a secret in
// its environment, and pauses it. It returns the name of its claim.
func pausedSandbox(t *testing.T, c *launchertest.Cluster, id string) string {
	t.Helper()
	spec := keptSpec(t, c, id)
	spec.Env = []string{"SECRET=" + noteSecret}
	s := harness.Launch(t, c.Launcher(), spec)
	harness.Put(t, s, "file", "kept")
	name := s.PodName()
	if err := errors.Join(s.Close(), c.Launcher().Pause(t.Context(), id)); err != nil {
		t.Fatal(err)
	}
	return name
}

const noteSecret = "correct-horse-battery"

// wantResumed checks that a sandbox resumes with its file and its environment.
func wantResumed(t *testing.T, c *launchertest.Cluster, id string) {
	t.Helper()
	s, err := c.Launcher().Resume(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	wantKept(t, s)
	if out, _, _ := harness.Run(t, s, "echo $SECRET", nil); out != noteSecret+"\n" {
		t.Errorf("its environment has %q", out)
	}
}

// evilPods are the pods that a patcher of claims would like to have made of this one.
func evilPods(t *testing.T, pod *corev1.Pod) map[string]string {
	t.Helper()
	notes := map[string]string{}
	for name, change := range map[string]func(*corev1.PodSpec){
		"hostPath": func(p *corev1.PodSpec) {
			p.Volumes = append(p.Volumes, corev1.Volume{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}})
			p.Containers[0].VolumeMounts = append(p.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "host", MountPath: "/host"})
		},
		"privileged":   func(p *corev1.PodSpec) { p.Containers[0].SecurityContext.Privileged = new(true) },
		"host network": func(p *corev1.PodSpec) { p.HostNetwork = true },
	} {
		evil := pod.DeepCopy()
		change(&evil.Spec)
		whole, err := json.Marshal(evil)
		if err != nil {
			t.Fatal(err)
		}
		notes[name] = string(whole)
	}
	return notes
}

func TestPatcherOfClaimsGetsNoPodOfTheirsMade(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, "privileged") // its admission lets everything through
	k, claim, other := c.Launcher(), pausedSandbox(t, c, "victim"), pausedSandbox(t, c, "other")
	pod, _, _, err := k.NotedPod(t.Context(), "victim")
	if err != nil {
		t.Fatal(err)
	}
	p := newPatcher(t, c)
	signed := p.note(claim)
	notes := evilPods(t, pod)
	notes["nothing"] = ""
	notes["another sandbox's"] = p.note(other)
	notes["another image"] = strings.Replace(signed, fmt.Sprintf("%q", c.Image), `"evil.example/image"`, 1)
	notes["signed by a stranger"] = strings.Replace(signed, " SHA256:", " SHA256:x", 1)
	for name, note := range notes {
		if note == signed {
			t.Fatalf("%s: it is as before", name)
		}
		p.write(claim, note)
		_, err := k.Resume(t.Context(), "victim")
		if name == "signed by a stranger" && errors.Is(err, launcher.ErrOtherKey) {
			err = launcher.ErrUnsigned
		}
		if !errors.Is(err, launcher.ErrUnsigned) {
			t.Errorf("%s: Resume: %v", name, err)
		}
		if _, err := c.API(t).CoreV1().Pods(c.Namespace).Get(t.Context(), claim, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Fatalf("%s: there is a pod: %v", name, err)
		}
		if d, err := k.Describe(t.Context(), "victim"); err != nil || len(d.Problems) == 0 {
			t.Errorf("%s: Describe: %v, %v", name, d.Problems, err)
		}
	}
	p.write(claim, signed)
	wantResumed(t, c, "victim")
}

func TestPodThatBreaksItsProfileIsNotEvenSigned(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k, claim := c.Launcher(), pausedSandbox(t, c, "job")
	pod, _, _, err := k.NotedPod(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	p := newPatcher(t, c)
	for name, note := range evilPods(t, pod) {
		p.write(claim, note)
		if _, digest, _, err := k.NotedPod(t.Context(), "job"); !errors.Is(err, launcher.ErrRejected) {
			t.Errorf("%s: NotedPod: %v", name, err)
		} else if err := k.SignNote(t.Context(), "job", digest); !errors.Is(err, launcher.ErrRejected) {
			t.Errorf("%s: SignNote: %v", name, err)
		}
	}
}

// A claim of the version that signed nothing has the whole pod in its annotation.
func TestNoteThatAPersonAcceptsIsResumed(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k, claim := c.Launcher(), pausedSandbox(t, c, "job")
	pod, _, _, err := k.NotedPod(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	whole, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	p := newPatcher(t, c)
	p.write(claim, string(whole))
	_, seen, sealed, err := k.NotedPod(t.Context(), "job")
	if err != nil || sealed {
		t.Fatalf("sealed: %t, %v", sealed, err)
	}
	p.write(claim, strings.Replace(string(whole), c.Image, "evil.example/image", 1)) // after it was looked at
	if err := k.SignNote(t.Context(), "job", seen); !errors.Is(err, launcher.ErrUnsigned) {
		t.Errorf("SignNote of what was not looked at: %v", err)
	}
	p.write(claim, string(whole))
	if _, err := k.Resume(t.Context(), "job"); !errors.Is(err, launcher.ErrUnsigned) {
		t.Errorf("Resume before it is signed: %v", err)
	}
	if err := k.SignNote(t.Context(), "job", seen); err != nil {
		t.Fatal(err)
	}
	if note := p.note(claim); strings.Contains(note, "PODAGENT_PROCESS_ENV") {
		t.Errorf("the environment is still in the claim: %s", note)
	}
	wantResumed(t, c, "job")
}

func TestEnvironmentIsNotReadableInTheClaim(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	spec := keptSpec(t, c, "job")
	spec.Env = []string{"SECRET=" + noteSecret}
	p := newPatcher(t, c)
	hidden := func(name, when string) {
		t.Helper()
		claim, err := p.api.CoreV1().PersistentVolumeClaims(c.Namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(claim)
		if err != nil {
			t.Fatal(err)
		}
		env := podOf(t, c, "job").Spec.Containers[0].Env
		for _, v := range env {
			if v.Name == "PODAGENT_PROCESS_ENV" && (v.Value == "" || strings.Contains(string(text), v.Value)) {
				t.Errorf("%s, the claim has the environment", when)
			}
		}
		if strings.Contains(string(text), noteSecret) {
			t.Errorf("%s, the claim has the secret", when)
		}
	}
	s := harness.Launch(t, c.Launcher(), spec)
	harness.Put(t, s, "file", "kept")
	hidden(s.PodName(), "since its creation")
	if err := c.Launcher().Pause(t.Context(), "job"); err != nil {
		t.Fatal(err)
	}
	spec.Env = append(spec.Env, "MORE=1")
	hidden(harness.Launch(t, c.Launcher(), spec).PodName(), "since another launch")
	if err := c.Launcher().Pause(t.Context(), "job"); err != nil {
		t.Fatal(err)
	}
	wantResumed(t, c, "job")
}

func TestNoteThatWasReplacedIsNotPutBack(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Baseline)
	k, spec := c.Launcher(), keptSpec(t, c, "job")
	p := newPatcher(t, c)
	start := func(profile launcher.Profile) string {
		t.Helper()
		spec.Pod.Profile = profile
		s := harness.Launch(t, k, spec)
		name := s.PodName()
		if err := errors.Join(s.Close(), k.Pause(t.Context(), "job")); err != nil {
			t.Fatal(err)
		}
		return name
	}
	claim := start(launcher.Baseline)
	notes := []string{p.note(claim)}
	for range 2 {
		start(launcher.Restricted)
		notes = append(notes, p.note(claim))
	}
	for i, old := range notes[:2] {
		p.write(claim, old)
		if _, err := k.Resume(t.Context(), "job"); !errors.Is(err, launcher.ErrUnsigned) || !strings.Contains(err.Error(), "was replaced") {
			t.Errorf("note %d: Resume: %v", i, err)
		}
	}
	p.write(claim, notes[2])
	s, err := k.Resume(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	terminate(t, k, "job")
	harness.Await(t, "the end of what says so", func() bool {
		leases, err := c.API(t).CoordinationV1().Leases(c.Namespace).List(t.Context(), harness.NoHeartbeats)
		return err == nil && len(leases.Items) == 0
	})
}

// While a launch makes another pod, somebody changes all that they can in the claim. What
// the launch notes then replaces what was noted before, all the same.
func TestPatcherOfClaimsKeepsNoNoteFromBeingReplaced(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Baseline)
	spec := keptSpec(t, c, "job")
	spec.Pod.Profile = launcher.Baseline
	s := harness.Launch(t, c.Launcher(), spec)
	claim := s.PodName()
	p := newPatcher(t, c)
	old := p.note(claim)
	if err := errors.Join(s.Close(), c.Launcher().Pause(t.Context(), "job")); err != nil {
		t.Fatal(err)
	}
	second := c.Launcher()
	before(second, func(r *http.Request) bool {
		return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/pods")
	}, func() {
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"2100-01-01T00:00:00Z",%q:"2100-01-01T00:00:00Z"}}}`, podmeta.AnnotationResumed, podmeta.AnnotationCreated)
		if _, err := p.api.CoreV1().PersistentVolumeClaims(c.Namespace).Patch(t.Context(), claim, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Error(err)
		}
	})
	spec.Pod.Profile = launcher.Restricted
	if err := errors.Join(harness.Launch(t, second, spec).Close(), c.Launcher().Pause(t.Context(), "job")); err != nil {
		t.Fatal(err)
	}
	if p.note(claim) == old {
		t.Error("the note is the old one")
	}
	p.write(claim, old)
	if _, err := c.Launcher().Resume(t.Context(), "job"); !errors.Is(err, launcher.ErrUnsigned) {
		t.Errorf("Resume: %v", err)
	}
}

func TestSandboxWithoutAClaimHasNothingToSign(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k := c.Launcher()
	harness.Launch(t, k, c.Spec("plain"))
	for id, want := range map[string]error{"plain": launcher.ErrNotKept, "none": launcher.ErrNotFound} {
		_, _, _, err := k.NotedPod(t.Context(), id)
		if signErr := k.SignNote(t.Context(), id, "x"); !errors.Is(err, want) || !errors.Is(signErr, want) {
			t.Errorf("%s: NotedPod: %v, SignNote: %v", id, err, signErr)
		}
	}
}
