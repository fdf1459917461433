package launcher

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/podagent/podagent/pkg/launcher/podmeta"
	"github.com/podagent/podagent/pkg/podapi/wayout"
)

// admitted returns the pod of a Spec as a cluster with a service mesh completes it.
func admitted(t *testing.T, spec Spec) *corev1.Pod {
	t.Helper()
	pod, problem := patched(manifest(&spec, "n", nil, time.Now()), spec.Pod.Patch)
	if problem != nil {
		t.Fatal(problem)
	}
	s := &pod.Spec
	if s.ServiceAccountName == "" {
		s.ServiceAccountName = "default"
	}
	s.DeprecatedServiceAccount, s.NodeName, s.SchedulerName, s.DNSPolicy = s.ServiceAccountName, "node", "default-scheduler", corev1.DNSClusterFirst
	s.Priority, s.PreemptionPolicy = new(int32(0)), new(corev1.PreemptLowerPriority)
	s.Tolerations = append(s.Tolerations, corev1.Toleration{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute})
	s.SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Level: "s0:c1"}
	s.Volumes = append(s.Volumes, emptyDir("mesh"))
	for i := range s.Volumes {
		if v := &s.Volumes[i]; v.Secret != nil {
			v.Secret.DefaultMode = new(int32(0o644))
		}
	}
	for c := range containers(pod) {
		c.TerminationMessagePath, c.ImagePullPolicy = "/dev/termination-log", corev1.PullIfNotPresent
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "mesh", MountPath: "/mesh"})
		c.Env = append(c.Env, corev1.EnvVar{Name: "MESH", Value: "1"})
	}
	s.Containers = append(s.Containers, corev1.Container{Name: "mesh", Image: "mesh"})
	pod.Labels["mesh"] = "1"
	return pod
}

// everything is a Spec with all that one can ask for.
func everything() Spec {
	return Spec{ID: "a", Workdir: "/w", Env: []string{"A=1"}, Protected: []string{"p$"}, Egress: wayout.Config{Mode: wayout.Auto, Require: wayout.Network, Ports: []uint16{80}}, Pod: Pod{
		Image: "i", AgentImage: "agent", Main: []string{"sleep", "$x"}, Labels: map[string]string{"team": "a"}, ServiceAccount: "account", Confine: "domain",
		Resources:    corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1000m")}},
		ReadOnlyRoot: true, UserNamespace: Require, RequireAppArmor: true, RuntimeClass: "gvisor", PriorityClass: "low", PullSecrets: []string{"pull"},
		NodeSelector: map[string]string{"disk": "ssd"}, Tolerations: []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpExists}},
		Volumes: []Volume{{Claim: "data", SubPath: "s", Path: "/data", ReadOnly: true}}, ReadOnly: []ReadOnlyDir{{Path: "/w/ro", From: "/etc"}},
		Workspace: Workspace{Owned: true}, Lifetime: time.Hour, IdleTimeout: time.Hour,
		Patch: []byte(`{"metadata": {"annotations": {"note": "1"}}, "spec": {"volumes": [{"name": "s", "secret": {"secretName": "s"}}],
"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}},
"containers": [{"name": "agent", "env": [{"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
"ports": [{"containerPort": 80}]}, {"name": "side", "image": "side", "args": ["a"], "volumeMounts": [{"name": "workspace", "mountPath": "/x"}],
"securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}]}}`),
	}}
}

func TestForkOfASpecAsksForNothingBeyondItsPod(t *testing.T) {
	baseline := Spec{ID: "a", Pod: Pod{Image: "i", Profile: Baseline}}
	kept := Spec{ID: "a", Pod: Pod{Image: "i", UserNamespace: Prefer, Workspace: Workspace{Keep: true}}}
	for name, spec := range map[string]Spec{"everything": everything(), "nothing": {ID: "a", Pod: Pod{Image: "i"}}, "baseline": baseline, "kept": kept} {
		if err := spec.validatePod(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		pod := admitted(t, spec)
		var made traits
		if err := json.Unmarshal([]byte(pod.Annotations[podmeta.AnnotationSpec]), &made); err != nil {
			t.Fatal(err)
		}
		read := made.spec()
		read.ID, read.Env, read.Protected = spec.ID, spec.Env, spec.Protected
		for _, users := range []*bool{pod.Spec.HostUsers, new(false)} {
			if spec.Pod.UserNamespace == Prefer {
				pod.Spec.HostUsers = users
			}
			if what, err := read.beyond(pod, nil); err != nil || what != "" {
				t.Errorf("of %s it %s, %v", name, what, err)
			}
		}
	}
}

func TestForkThatAsksForMoreIsRefused(t *testing.T) {
	for what, change := range map[string]func(*Spec){
		`spec.containers[agent].image "j"`:                                func(s *Spec) { s.Pod.Image = "j" },
		`spec.initContainers[install].image "j"`:                          func(s *Spec) { s.Pod.AgentImage = "j" },
		`spec.containers[agent].command, which`:                           func(s *Spec) { s.Pod.Main = []string{"true"} },
		`spec.containers[agent].command`:                                  func(s *Spec) { s.Pod.ReadOnly = nil },
		`spec.containers[agent].workingDir "/v"`:                          func(s *Spec) { s.Workdir = "/v" },
		`spec.containers[agent].env[PODAGENT_CONFINE].value`:              func(s *Spec) { s.Pod.Confine = "off" },
		`spec.containers[agent].env[PODAGENT_EGRESS].value`:               func(s *Spec) { s.Egress.Mode = wayout.Off },
		`spec.containers[agent].env[PODAGENT_EGRESS_REQUIRE].value`:       func(s *Spec) { s.Egress.Require = wayout.Open },
		`spec.serviceAccountName "admin"`:                                 func(s *Spec) { s.Pod.ServiceAccount = "admin" },
		`spec.automountServiceAccountToken false`:                         func(s *Spec) { s.Pod.ServiceAccount = "" },
		`spec.containers[agent].resources.limits.cpu "4"`:                 func(s *Spec) { s.Pod.Resources.Limits[corev1.ResourceCPU] = resource.MustParse("4") },
		`spec.containers[agent].resources.limits.memory`:                  func(s *Spec) { s.Pod.Resources.Limits[corev1.ResourceMemory] = resource.Quantity{} },
		`spec.containers[agent].securityContext.readOnlyRootFilesystem`:   func(s *Spec) { s.Pod.ReadOnlyRoot = false },
		`spec.containers[agent].securityContext.allowPrivilegeEscalation`: func(s *Spec) { s.Pod.Profile = Baseline },
		`spec.hostUsers`:                                                func(s *Spec) { s.Pod.UserNamespace = "" },
		`spec.securityContext.appArmorProfile`:                          func(s *Spec) { s.Pod.RequireAppArmor = false },
		`spec.runtimeClassName`:                                         func(s *Spec) { s.Pod.RuntimeClass = "" },
		`spec.runtimeClassName "other"`:                                 func(s *Spec) { s.Pod.RuntimeClass = "other" },
		`spec.priorityClassName "high"`:                                 func(s *Spec) { s.Pod.PriorityClass = "high" },
		`spec.imagePullSecrets[other]`:                                  func(s *Spec) { s.Pod.PullSecrets = []string{"other"} },
		`spec.nodeSelector.disk "tape"`:                                 func(s *Spec) { s.Pod.NodeSelector = map[string]string{"disk": "tape"} },
		`spec.tolerations, which`:                                       func(s *Spec) { s.Pod.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} },
		`metadata.labels[team] "b"`:                                     func(s *Spec) { s.Pod.Labels = map[string]string{"team": "b"} },
		`spec.volumes[claim-0].persistentVolumeClaim.claimName "other"`: func(s *Spec) { s.Pod.Volumes[0].Claim = "other" },
		`spec.containers[agent].volumeMounts[/data].subPath`:            func(s *Spec) { s.Pod.Volumes[0].SubPath = "" },
		`spec.containers[agent].volumeMounts[/data].subPath "t"`:        func(s *Spec) { s.Pod.Volumes[0].SubPath = "t" },
		`asks for spec.containers[agent].command`:                       func(s *Spec) { s.Pod.Volumes[0].ReadOnly = false },
		`does without spec.affinity`:                                    func(s *Spec) { s.Pod.Patch = nil },
	} {
		spec := everything()
		change(&spec)
		if got, err := spec.beyond(admitted(t, everything()), nil); err != nil || !strings.Contains(got, what) {
			t.Errorf("not %s: it %s, %v", what, got, err)
		}
	}
}

func TestForkWhosePatchAsksForMoreIsRefused(t *testing.T) {
	spec := Spec{ID: "a", Pod: Pod{Image: "i", Patch: []byte(`{"spec": {"volumes": [{"name": "s", "secret": {"secretName": "s"}}], "containers": [
{"name": "agent", "env": [{"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]},
{"name": "side", "image": "side", "args": ["a"], "securityContext": {"allowPrivilegeEscalation": false}}]}}`)}}
	pod := admitted(t, spec)
	for what, patch := range map[string]string{
		`metadata.annotations[inject] "yes"`:                             `{"metadata": {"annotations": {"inject": "yes"}}}`,
		`spec.automountServiceAccountToken true`:                         `{"spec": {"automountServiceAccountToken": true}}`,
		`spec.hostNetwork true`:                                          `{"spec": {"hostNetwork": true}}`,
		`spec.hostPID true`:                                              `{"spec": {"hostPID": true}}`,
		`spec.nodeName "control"`:                                        `{"spec": {"nodeName": "control"}}`,
		`spec.volumes[host]`:                                             `{"spec": {"volumes": [{"name": "host", "hostPath": {"path": "/"}}]}}`,
		`spec.volumes[s].secret.secretName "t"`:                          `{"spec": {"volumes": [{"name": "s", "secret": {"secretName": "t"}}]}}`,
		`spec.containers[more]`:                                          `{"spec": {"containers": [{"name": "more", "image": "i"}]}}`,
		`spec.containers[side].args, which`:                              `{"spec": {"containers": [{"name": "side", "image": "side", "args": ["b"]}]}}`,
		`spec.containers[side].securityContext.allowPrivilegeEscalation`: `{"spec": {"containers": [{"name": "side", "image": "side", "args": ["a"]}]}}`,
		`spec.containers[agent].securityContext.privileged true`:         `{"spec": {"containers": [{"name": "agent", "securityContext": {"privileged": true}}]}}`,
		`spec.containers[agent].securityContext.capabilities.add, which`: `{"spec": {"containers": [{"name": "agent", "securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}]}}`,
		`spec.containers[agent].securityContext.runAsUser 0`:             `{"spec": {"containers": [{"name": "agent", "securityContext": {"runAsUser": 0}}]}}`,
		`spec.containers[agent].env[S].valueFrom.secretKeyRef.name "t"`:  `{"spec": {"containers": [{"name": "agent", "env": [{"name": "S", "valueFrom": {"secretKeyRef": {"name": "t", "key": "k"}}}]}]}}`,
		`spec.containers[agent].envFrom, which`:                          `{"spec": {"containers": [{"name": "agent", "envFrom": [{"prefix": "x", "secretRef": {"name": "t"}}]}]}}`,
		`spec.containers[agent].ports, which`:                            `{"spec": {"containers": [{"name": "agent", "ports": [{"containerPort": 80, "hostPort": 80}]}]}}`,
		`spec.containers[agent].volumeMounts[/usr/local/bin]`:            `{"spec": {"containers": [{"name": "agent", "volumeMounts": [{"name": "workspace", "mountPath": "/usr/local/bin"}]}]}}`,
		`spec.containers[side].volumeMounts[/usr/local/bin]`:             `{"spec": {"containers": [{"name": "side", "image": "side", "args": ["a"], "volumeMounts": [{"name": "workspace", "mountPath": "/usr/local/bin"}], "securityContext": {"allowPrivilegeEscalation": false}}]}}`,
		`spec.containers[mesh].volumeMounts[/usr/local/bin]`:             `{"spec": {"containers": [{"name": "mesh", "image": "mesh", "volumeMounts": [{"name": "workspace", "mountPath": "/usr/local/bin"}]}]}}`,
		`spec.containers[agent].lifecycle.postStart.exec.command, which`: `{"spec": {"containers": [{"name": "agent", "lifecycle": {"postStart": {"exec": {"command": ["true"]}}}}]}}`,
	} {
		spec.Pod.Patch = []byte(patch)
		if got, err := spec.beyond(pod, nil); err != nil || !strings.Contains(got, what) {
			t.Errorf("not %s: it %s, %v", what, got, err)
		}
	}
}

// The pod of an owned workspace lacks what makes its directory if that is there already. Its fork makes one, with no more
// than the pod has.
func TestForkOfAnOwnedWorkspaceMayMakeItsDirectory(t *testing.T) {
	const agentOf = `{"spec": {"containers": [{"name": "agent", "image": "i"}]}}`
	fillWith := func(more string) string {
		return `{"spec": {"volumes": [{"name": "s", "secret": {"secretName": "s"}}], "initContainers": [{"name": "fill", ` + more + `}]}}`
	}
	spec := Spec{ID: "a", Pod: Pod{Image: "i", Workspace: Workspace{Keep: true, Owned: true}, Patch: []byte(`{"spec": {"volumes": [{"name": "s", "secret": {"secretName": "s"}}]}}`)}}
	made, there := admitted(t, spec), admitted(t, spec)
	disown(&there.Spec)
	for _, test := range []struct{ image, patch, want string }{
		{image: "i"},
		{"j", agentOf, `initContainers[fill].image "j"`},
		{"i", fillWith(`"image": "j"`), `initContainers[fill].image "j"`},
		{"i", fillWith(`"volumeMounts": [{"name": "s", "mountPath": "/s"}]`), `initContainers[fill].volumeMounts[/s]`},
		{"i", fillWith(`"volumeMounts": [{"name": "workspace", "mountPath": "/usr/local/bin"}]`), `initContainers[fill].volumeMounts[/usr/local/bin]`},
		{"i", fillWith(`"env": [{"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]`), `initContainers[fill].env[S]`},
	} {
		spec.Pod.Image, spec.Pod.Patch = test.image, []byte(test.patch)
		for _, pod := range []*corev1.Pod{made, there} {
			if got, err := spec.beyond(pod, nil); err != nil || !strings.Contains(got, test.want) || got != "" && test.want == "" {
				t.Errorf("of %q, %s: it %s, %v", test.image, test.patch, got, err)
			}
		}
	}
}

// The files of older claims are in the root of the volume. A patch's mounts show no more of a fork's volume than of that.
func TestForkMountsNoMoreOfItsWorkspace(t *testing.T) {
	spec := Spec{ID: "a", Pod: Pod{Image: "i", Workspace: Workspace{Keep: true}, Patch: []byte(`{"spec": {"containers": [{"name": "side", "image": "side", "volumeMounts": [{"name": "workspace", "mountPath": "/x"}]}]}}`)}}
	pod := admitted(t, spec)
	for _, lay := range []func(){func() { mountFiles(&pod.Spec, filesDir) }, func() { flatten(&pod.Spec) }} {
		lay()
		if got, err := spec.beyond(pod, nil); err != nil || got != "" {
			t.Errorf("it %s, %v", got, err)
		}
	}
	mountFiles(&pod.Spec, filesDir)
	spec.Pod.Workspace.Owned = true // whose patches mount the root
	if got, err := spec.beyond(pod, nil); err != nil || !strings.Contains(got, "volumeMounts[/x].subPath") {
		t.Errorf("it %s, %v", got, err)
	}
}

// A RuntimeClass adds the node selector that it has, and accounts for no other one.
func TestForkRunsOnTheNodesOfItsPod(t *testing.T) {
	c := noting(t)
	mux := http.NewServeMux()
	for name, scheduling := range map[string]string{"placed": `{"nodeSelector": {"runtime": "gvisor"}}`, "anywhere": "null"} {
		mux.HandleFunc("GET /apis/node.k8s.io/v1/runtimeclasses/"+name, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": %q}, "handler": "h", "scheduling": %s}`, name, scheduling)
		})
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	api, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	c.api = api
	for _, test := range []struct {
		class, more string // the class, and a label that the nodes of the pod must have, too
		want        string // in the error; empty if there is none
	}{
		{class: "placed"},
		{class: "placed", more: "tenants", want: "does without spec.nodeSelector.tenants"},
		{class: "anywhere", want: "does without spec.nodeSelector.runtime"},
		{class: "unknown", want: "its runtime class cannot be read"},
		{class: "", want: "does without spec.nodeSelector.runtime"},
	} {
		pod := admitted(t, Spec{ID: "a", Pod: Pod{Image: "i", RuntimeClass: test.class, NodeSelector: map[string]string{"disk": "ssd"}}})
		pod.Spec.NodeSelector["runtime"] = "gvisor"
		if test.more != "" {
			pod.Spec.NodeSelector[test.more] = "x"
		}
		_, err := c.specOf(t.Context(), pod)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%+v: %v", test, err)
		}
	}
}

// A value of the environment may be a secret, also if the Spec has it openly.
func TestRefusedForkShowsNoEnvironment(t *testing.T) {
	spec := Spec{ID: "a", Pod: Pod{Image: "i"}}
	pod := admitted(t, spec)
	for _, name := range []string{"MESH", "NEW"} {
		spec.Pod.Patch = fmt.Appendf(nil, `{"spec": {"containers": [{"name": "agent", "env": [{"name": %q, "value": "hush"}]}]}}`, name)
		if got, err := spec.beyond(pod, nil); err != nil || !strings.Contains(got, "env["+name+"]") || strings.Contains(got, "hush") {
			t.Errorf("it %s, %v", got, err)
		}
	}
}

// Whoever removes the assignment of a pod removes the environment and the protected paths that its sandbox has.
func TestForkOfAPodOfAPoolNeedsItsAssignment(t *testing.T) {
	c := noting(t)
	pod := warmPod(Spec{Pod: Pod{Image: "i"}})
	pod.UID, pod.Annotations[podmeta.AnnotationID], pod.Labels[podmeta.LabelManagedBy] = "uid", "a", podmeta.ManagedBy
	if _, err := c.specOf(t.Context(), pod); err == nil || !strings.Contains(err.Error(), podmeta.AnnotationAssignment) {
		t.Errorf("without it: %v", err)
	}
	r, err := c.identities.fresh(t.Context(), ringAge)
	if err != nil {
		t.Fatal(err)
	}
	text, err := r.accepted()[0].keys.Assignment(string(pod.UID), []string{"A=1"}, []string{"p"}, new(Pod).idle())
	if err != nil {
		t.Fatal(err)
	}
	pod.Annotations[podmeta.AnnotationAssignment] = text
	spec, err := c.specOf(t.Context(), pod)
	if err != nil || len(spec.Env) != 1 || len(spec.Protected) != 1 {
		t.Errorf("with it: %+v, %v", spec, err)
	}
}
