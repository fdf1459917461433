package e2e

// The fields and patches of a sandbox's pod.

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

func TestFieldsOfAPod(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	api, name := c.API(t), c.Namespace
	_, err := api.SchedulingV1().PriorityClasses().Create(t.Context(), &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: 7}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := api.SchedulingV1().PriorityClasses().Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	makeRuntimeClass(t, c, name)
	spec := c.Spec("a")
	spec.Pod.PriorityClass, spec.Pod.RuntimeClass, spec.Pod.PullSecrets = name, name, []string{"registry"}
	spec.Pod.NodeSelector = map[string]string{"kubernetes.io/os": "linux"}
	spec.Pod.Tolerations = []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpEqual, Value: "agents", Effect: corev1.TaintEffectNoSchedule}}
	spec.Pod.Patch = []byte(`
metadata:
  annotations: {example.com/a: b}
spec:
  hostname: elsewhere
  containers:
    - name: agent
      env: [{name: EXTRA, value: "1"}]
      ports: [{containerPort: 8080}]
    - name: sidecar
      image: ` + c.Image + `
      command: [sleep, "600"]
      securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
`)
	k := c.Launcher()
	s := harness.Launch(t, k, spec)
	if out, _, _ := harness.Run(t, s, "hostname; echo $EXTRA", nil); out != "elsewhere\n1\n" {
		t.Errorf("inside: %q", out)
	}
	pod := podOf(t, c, "a")
	if *pod.Spec.Priority != 7 || *pod.Spec.RuntimeClassName != name || len(pod.Spec.Containers) != 2 || pod.Annotations["example.com/a"] != "b" || pod.Spec.ImagePullSecrets[0].Name != "registry" {
		t.Errorf("the pod is %+v", pod.Spec)
	}
	if !slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool { return t.Value == "agents" }) {
		t.Errorf("tolerations: %+v", pod.Spec.Tolerations)
	}
	if again := harness.Launch(t, k, spec); len(again.Drift) > 0 {
		t.Errorf("the same Spec drifts: %q", again.Drift)
	}
	spec.Pod.Patch = []byte(`{"spec": {"hostname": "other"}}`)
	if again := harness.Launch(t, k, spec); len(again.Drift) != 1 || !strings.Contains(again.Drift[0], "patch is ") {
		t.Errorf("drift: %q", again.Drift)
	}
}

func TestMissingNodeIsUnschedulable(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	spec := c.Spec("a")
	spec.Pod.NodeSelector = map[string]string{"example.com/none": "x"}
	if _, err := c.Launcher().Launch(t.Context(), spec); !errors.Is(err, launcher.ErrUnschedulable) {
		t.Errorf("Launch: %v", err)
	}
}

// A patch that breaks a required field is refused without any API request.
func TestPatchThatBreaksThePodNamesTheField(t *testing.T) {
	t.Parallel()
	k := &launcher.Kubernetes{Kubeconfig: "/nowhere"}
	for patch, want := range map[string]string{
		"metadata: {name: x}": "metadata.name",
		"metadata: {labels: {app.kubernetes.io/managed-by: x}}":                  "metadata.labels[app.kubernetes.io/managed-by]",
		"metadata: {labels: {podagent.dev/id: null}}":                            "metadata.labels[podagent.dev/id]",
		"metadata: {annotations: {podagent.dev/key: x}}":                         "metadata.annotations[podagent.dev/key]",
		"metadata: {annotations: {podagent.dev/new: x}}":                         "metadata.annotations[podagent.dev/new]",
		"metadata: {labels: null}":                                               "metadata.labels",
		"metadata: null":                                                         "metadata.name",
		"$patch: delete":                                                         "metadata.name",
		"metadata: {annotations: null}":                                          "metadata.annotations",
		"kind: Pod\n---\nspec: {hostPID: true}":                                  "more than one document",
		"spec: {volumes: [{name: workspace, emptyDir: {medium: Memory}}]}":       "spec.volumes[workspace]",
		"spec: {containers: [{name: agent, volumeMounts: [{$patch: replace}]}]}": "spec.containers[agent].volumeMounts[",
		"spec: {containers: [{name: agent, volumeMounts: [{name: workspace, mountPath: /.podagent/bin}]}]}": "spec.containers[agent].volumeMounts[/.podagent/bin]",
		"spec: {containers: [{name: agent, volumeMounts: [{name: home, mountPath: /workspace/}]}]}":         "spec.containers[agent].volumeMounts[/workspace/]",
		"spec: {containers: [{name: agent, restartPolicy: Never}]}":                                         "spec.containers[agent].restartPolicy",
		"spec: {restartPolicy: Never}":                                                               "spec.restartPolicy",
		"spec: {shareProcessNamespace: true}":                                                        "spec.shareProcessNamespace",
		"spec: {containers: [{name: agent, command: [sh]}]}":                                         "spec.containers[agent].command",
		"spec: {containers: [{name: agent, args: [x]}]}":                                             "spec.containers[agent].args",
		"spec: {containers: [{name: agent, env: [{name: PODAGENT_AUTHORIZED_KEY, value: x}]}]}":      "spec.containers[agent].env[PODAGENT_AUTHORIZED_KEY]",
		"spec: {containers: [{name: agent, env: [{name: PODAGENT_INSECURE, value: 'true'}]}]}":       "spec.containers[agent].env[PODAGENT_INSECURE]",
		"spec: {containers: [{name: agent, envFrom: [{configMapRef: {name: x}}]}]}":                  "spec.containers[agent].envFrom[0]",
		"spec: {containers: [{name: agent, envFrom: [{prefix: PODAGENT_A, secretRef: {name: x}}]}]}": "spec.containers[agent].envFrom[0]",
		"spec: {containers: [{name: agent, $patch: delete}]}":                                        "spec.containers[agent]",
		"spec: {hostNetwork: true}":                                                                  "hostNetwork=true",
		"spec: {containers: [{name: agent, securityContext: {privileged: true}}]}":                   "securityContext.privileged=true",
		"spec: {containers: [{name: side, image: x}]}":                                               `"side" must set securityContext.allowPrivilegeEscalation=false`,
		"spec: {securityContext: {runAsUser: 0}}":                                                    "runAsUser=0",
		"spec: {volumes: [{name: host, hostPath: {path: /}}]}":                                       `"host"`,
		"spec: {contaners: []}":                                                                      `unknown field "spec.contaners"`,
		"spec: {hostname: 7}":                                                                        "spec.hostname",
		"{":                                                                                          "neither YAML nor JSON",
		"[]":                                                                                         "not an object",
		"kind: Deployment":                                                                           "kind Deployment",
		"spec: {hostname: a, hostname: b}":                                                           `"hostname" already set`,
		"metadata: {annotations: {x: " + strings.Repeat("x", 70000) + "}}":                           "at most 65536",
	} {
		spec := launcher.Spec{ID: "a", Pod: launcher.Pod{Image: "image", Patch: []byte(patch)}}
		_, err := k.Launch(t.Context(), spec)
		problem, ok := errors.AsType[*launcher.SpecError](err)
		if !ok || problem.Field != "Pod.Patch" || !strings.Contains(problem.Msg, want) {
			t.Errorf("%.80s: %v, want %s", patch, err, want)
		}
	}
}

func TestInvalidFieldsOfAPod(t *testing.T) {
	t.Parallel()
	k := &launcher.Kubernetes{Kubeconfig: "/nowhere"}
	for want, change := range map[string]func(*launcher.Spec){
		"Pod.RuntimeClass":  func(s *launcher.Spec) { s.Pod.RuntimeClass = "No" },
		"Pod.PriorityClass": func(s *launcher.Spec) { s.Pod.PriorityClass = "a b" },
		"Pod.PullSecrets":   func(s *launcher.Spec) { s.Pod.PullSecrets = []string{""} },
		"Pod.NodeSelector":  func(s *launcher.Spec) { s.Pod.NodeSelector = map[string]string{"a b": ""} },
		"Pod.Tolerations":   func(s *launcher.Spec) { s.Pod.Tolerations = []corev1.Toleration{{Key: "a", Effect: "Never"}} },
		"Pod.Volumes":       func(s *launcher.Spec) { s.Pod.Volumes = []launcher.Volume{{Claim: "a", SubPath: "../b", Path: "/x"}} },
		"Pod.Workspace":     func(s *launcher.Spec) { s.Pod.Workspace.StorageClass = "A" },
		"Pod.Volumes ": func(s *launcher.Spec) {
			s.Pod.Volumes = []launcher.Volume{{Claim: "a", Path: "/x", ReadOnly: true}, {Claim: "b", Path: "/x/y"}}
		},
		"Pod.Workspace ": func(s *launcher.Spec) { s.Pod.Workspace.Size = resource.MustParse("1m") },
		"Pod.Workspace  ": func(s *launcher.Spec) {
			s.Pod.Workspace.Keep, s.Pod.ReadOnly = true, []launcher.ReadOnlyDir{{Path: "/workspace"}}
		},
		"Pod.Lifetime":            func(s *launcher.Spec) { s.Pod.Lifetime = 9 * time.Hour },
		"Pod.IdleTimeout":         func(s *launcher.Spec) { s.Pod.IdleTimeout = time.Millisecond },
		"Pod.IdleIgnoresCommands": func(s *launcher.Spec) { s.Pod.IdleIgnoresCommands = true },
		"Pod.Main":                func(s *launcher.Spec) { s.Pod.Main = []string{"a", "\xff"} },
		"Pod.AgentImage":          func(s *launcher.Spec) { s.Pod.AgentImage = "a b" },
		"Pod.ReadOnly": func(s *launcher.Spec) {
			s.Pod.Volumes = []launcher.Volume{{Claim: "a", Path: "/x"}}
			s.Pod.ReadOnly = []launcher.ReadOnlyDir{{Path: "/x"}}
		},
	} {
		spec := launcher.Spec{ID: "a", Pod: launcher.Pod{Image: "image"}}
		change(&spec)
		_, err := k.Launch(t.Context(), spec)
		if problem, ok := errors.AsType[*launcher.SpecError](err); !ok || problem.Field != strings.TrimSpace(want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	for _, sub := range []string{"/a", "a/../../b", "a//b", "./a", "a/", "..", "a\x00b"} {
		spec := launcher.Spec{ID: "a", Pod: launcher.Pod{Image: "image", Volumes: []launcher.Volume{{Claim: "a", SubPath: sub, Path: "/x"}}}}
		if _, err := k.Launch(t.Context(), spec); !errors.As(err, new(*launcher.SpecError)) {
			t.Errorf("subPath %q: %v", sub, err)
		}
	}
}

// makeRuntimeClass makes a RuntimeClass of the default runtime until the test ends.
func makeRuntimeClass(t *testing.T, c *launchertest.Cluster, name string) {
	t.Helper()
	classes := c.API(t).NodeV1().RuntimeClasses()
	class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Handler: "runc"}
	if _, err := classes.Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = classes.Delete(context.Background(), name, metav1.DeleteOptions{}) })
}

// The name of the class tells that a runtime does not support port-forwards.
func TestRuntimeClassThatForwardsNothingIsReachedByExec(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted).By(t, launcher.ByExec)
	k := c.Launcher()
	k.Connection = ""
	for id, class := range map[string]string{"forwarded": "", "not-forwarded": "kata-" + c.Namespace} {
		spec := c.Spec(id)
		if class != "" {
			makeRuntimeClass(t, c, class)
			spec.Pod.RuntimeClass = class
		}
		const connecting = `for f in /proc/[0-9]*/cmdline; do tr '\0' ' ' <$f; echo; done | grep -c '^[^ ]*podagent connect'`
		out, errOut, _ := harness.Run(t, harness.Launch(t, k, spec), connecting, nil)
		if want := map[bool]string{false: "0\n", true: "1\n"}[class != ""]; out != want {
			t.Errorf("%s: %q processes connect, %s", id, out, errOut)
		}
	}
}
