package launcher

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// amounts are resources from text, such as "cpu=1 memory=2Gi".
func amounts(s string) corev1.ResourceList {
	if s == "" {
		return nil
	}
	list := corev1.ResourceList{}
	for one := range strings.FieldsSeq(s) {
		name, amount, _ := strings.Cut(one, "=")
		list[corev1.ResourceName(name)] = resource.MustParse(amount)
	}
	return list
}

func specFor(t *testing.T, pod Pod) corev1.PodSpec {
	t.Helper()
	pod.Image = "image"
	spec := &Spec{ID: "a", Pod: pod}
	if err := spec.validatePod(); err != nil {
		t.Fatal(err)
	}
	return manifest(spec, "n", nil, time.Now()).Spec
}

func TestPodIsBoundByDefault(t *testing.T) {
	for name, tt := range map[string]struct {
		requests, limits string
		workspace        Workspace
		wantRequests     string
		wantLimits       string
	}{
		"nothing given": {
			wantRequests: "cpu=10m memory=128Mi ephemeral-storage=0",
			wantLimits:   "cpu=4 memory=4Gi ephemeral-storage=20Gi",
		},
		"no limits": {
			limits:       "cpu=0 memory=0 ephemeral-storage=0",
			wantRequests: "cpu=10m memory=128Mi ephemeral-storage=0",
			wantLimits:   "",
		},
		"a request without a limit": {
			requests: "memory=16Gi", limits: "memory=0",
			wantRequests: "cpu=10m memory=16Gi ephemeral-storage=0",
			wantLimits:   "cpu=4 ephemeral-storage=20Gi",
		},
		"each key for itself": {
			requests: "memory=1Gi", limits: "cpu=1",
			wantRequests: "memory=1Gi ephemeral-storage=0", // the cluster takes the limit for the processor's
			wantLimits:   "cpu=1 memory=4Gi ephemeral-storage=20Gi",
		},
		"more requested than the default limits": {
			requests:     "cpu=8 memory=16Gi ephemeral-storage=1Ti",
			wantRequests: "cpu=8 memory=16Gi ephemeral-storage=1Ti",
			wantLimits:   "cpu=8 memory=16Gi ephemeral-storage=1Ti",
		},
		"others": {
			requests: "example.com/gpu=1", limits: "example.com/gpu=1",
			wantRequests: "cpu=10m memory=128Mi ephemeral-storage=0 example.com/gpu=1",
			wantLimits:   "cpu=4 memory=4Gi ephemeral-storage=20Gi example.com/gpu=1",
		},
		"a larger workspace": {
			workspace:    Workspace{Size: resource.MustParse("50Gi")},
			wantRequests: "cpu=10m memory=128Mi ephemeral-storage=0",
			wantLimits:   "cpu=4 memory=4Gi ephemeral-storage=60Gi",
		},
		"a kept workspace": {
			workspace:    Workspace{Keep: true, Size: resource.MustParse("50Gi")},
			wantRequests: "cpu=10m memory=128Mi ephemeral-storage=0",
			wantLimits:   "cpu=4 memory=4Gi ephemeral-storage=10Gi",
		},
		"a workspace without a bound": {
			workspace:    Workspace{Size: resource.MustParse("-1")},
			wantRequests: "cpu=10m memory=128Mi ephemeral-storage=0",
			wantLimits:   "cpu=4 memory=4Gi",
		},
	} {
		given := corev1.ResourceRequirements{Requests: amounts(tt.requests), Limits: amounts(tt.limits)}
		got := specFor(t, Pod{Resources: given, Workspace: tt.workspace}).Containers[0].Resources
		want := corev1.ResourceRequirements{Requests: amounts(tt.wantRequests), Limits: amounts(tt.wantLimits)}
		if want.Limits == nil {
			want.Limits = corev1.ResourceList{}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if !cmp.Equal(given, corev1.ResourceRequirements{Requests: amounts(tt.requests), Limits: amounts(tt.limits)}) {
			t.Errorf("%s: the caller's resources changed", name)
		}
	}
}

// sizes returns the size limits of the emptyDirs.
func sizes(pod corev1.PodSpec) map[string]string {
	out := map[string]string{}
	for _, v := range pod.Volumes {
		if v.EmptyDir != nil {
			out[v.Name] = "none"
			if v.EmptyDir.SizeLimit != nil {
				out[v.Name] = v.EmptyDir.SizeLimit.String()
			}
		}
	}
	return out
}

func TestVolumesOnTheNodesDiskHaveSizes(t *testing.T) {
	more := Pod{ReadOnlyRoot: true, AgentImage: "agent", ReadOnly: []ReadOnlyDir{{Path: "/rules", From: "/src"}}}
	want := map[string]string{"workspace": "10Gi", "home": "20Gi", "tmp": "20Gi", "podagent": "20Gi", "read-only-0": "20Gi"}
	if diff := cmp.Diff(want, sizes(specFor(t, more))); diff != "" {
		t.Errorf("by default (-want +got):\n%s", diff)
	}
	more.Workspace.Size, more.Resources.Limits = resource.MustParse("1Gi"), amounts("ephemeral-storage=3Gi")
	want = map[string]string{"workspace": "1Gi", "home": "3Gi", "tmp": "3Gi", "podagent": "3Gi", "read-only-0": "3Gi"}
	if diff := cmp.Diff(want, sizes(specFor(t, more))); diff != "" {
		t.Errorf("with sizes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"workspace": "none", "home": "none"}, sizes(specFor(t, Pod{Workspace: Workspace{Size: resource.MustParse("-1")}}))); diff != "" {
		t.Errorf("without a bound (-want +got):\n%s", diff)
	}
	for given, want := range map[string]string{"0": DefaultWorkspaceSize, "3Gi": "3Gi"} {
		claim := Workspace{Keep: true, Size: resource.MustParse(given)}.claimSpec()
		if got := claim.Resources.Requests.Storage(); got.Cmp(resource.MustParse(want)) != 0 {
			t.Errorf("a claim of %s asks for %s", given, got)
		}
	}
	kept := &Spec{ID: "a", Pod: Pod{Image: "image", Workspace: Workspace{Keep: true, Size: resource.MustParse("-1")}}}
	if err := kept.validatePod(); err == nil || !strings.Contains(err.Error(), "a claim has a size") {
		t.Errorf("a claim without a size: %v", err)
	}
}

func TestProtectionsOfAPod(t *testing.T) {
	for profile, drop := range map[Profile]corev1.Capability{Restricted: "ALL", Baseline: "NET_RAW"} {
		plain := specFor(t, Pod{Profile: profile, AgentImage: "agent"})
		for _, c := range append(plain.InitContainers, plain.Containers...) {
			if got := c.SecurityContext; got == nil || len(got.Capabilities.Drop) != 1 || got.Capabilities.Drop[0] != drop || got.ReadOnlyRootFilesystem != nil {
				t.Errorf("%s: %s has %+v", profile, c.Name, got)
			}
		}
		if plain.HostUsers != nil || plain.SecurityContext.AppArmorProfile != nil {
			t.Errorf("%s: the pod asks for what nobody wants", profile)
		}
		all := specFor(t, Pod{Profile: profile, AgentImage: "agent", ReadOnlyRoot: true, UserNamespace: Require, RequireAppArmor: true})
		if all.HostUsers == nil || *all.HostUsers || all.SecurityContext.AppArmorProfile.Type != corev1.AppArmorProfileTypeRuntimeDefault {
			t.Errorf("%s: %+v", profile, all)
		}
		for _, c := range append(all.InitContainers, all.Containers...) {
			if !hasReadOnlyRoot(&c) {
				t.Errorf("%s: the root of %s can be written", profile, c.Name)
			}
		}
		if c := &all.Containers[0]; !isMounted(c, "/tmp") || !isMounted(c, homeDir) || variable(c.Env, "HOME").Value != homeDir {
			t.Errorf("%s: it has %+v and %+v", profile, c.VolumeMounts, c.Env)
		}
	}
	at := &Spec{ID: "a", Workdir: "/tmp", Pod: Pod{Image: "image", ReadOnlyRoot: true}}
	if pod := manifest(at, "n", nil, time.Now()).Spec; pod.Containers[0].VolumeMounts[0].Name != workspaceName {
		t.Errorf("a workdir at /tmp: %+v", pod.Containers[0].VolumeMounts)
	}
	ping := &Spec{ID: "a", Pod: Pod{Image: "image", Profile: Baseline, Patch: []byte("spec: {containers: [{name: agent, securityContext: {capabilities: {drop: null}}}]}")}}
	if err := ping.validatePod(); err != nil {
		t.Errorf("a patch for ping: %v", err)
	}
	wrong := &Spec{ID: "a", Pod: Pod{Image: "image", UserNamespace: "always"}}
	if err := wrong.validatePod(); err == nil || !strings.Contains(err.Error(), "prefer or require") {
		t.Errorf("a word that is none: %v", err)
	}
}

func TestPatchThatLosesAProtection(t *testing.T) {
	for patch, field := range map[string]string{
		"spec: {hostUsers: true}":                          "spec.hostUsers",
		"spec: {hostUsers: null}":                          "spec.hostUsers",
		"spec: {securityContext: {appArmorProfile: null}}": "spec.securityContext.appArmorProfile",
		"spec: {containers: [{name: agent, securityContext: {readOnlyRootFilesystem: false}}]}":      "spec.containers[agent].securityContext.readOnlyRootFilesystem",
		"spec: {initContainers: [{name: install, securityContext: {readOnlyRootFilesystem: null}}]}": "spec.initContainers[install].securityContext.readOnlyRootFilesystem",
	} {
		spec := &Spec{ID: "a", Pod: Pod{Image: "image", AgentImage: "agent", ReadOnlyRoot: true, UserNamespace: Require, RequireAppArmor: true, Patch: []byte(patch)}}
		if err := spec.checkPatch(); err == nil || !strings.Contains(err.Msg, "changes "+field+",") {
			t.Errorf("%s: %v", patch, err)
		}
		spec.Pod.ReadOnlyRoot, spec.Pod.UserNamespace, spec.Pod.RequireAppArmor = false, "", false
		if err := spec.checkPatch(); err != nil {
			t.Errorf("%s without the protections: %v", patch, err)
		}
	}
}

func TestNodesThatSupportUserNamespaces(t *testing.T) {
	node := func(kubelet, kernel string, handlers ...corev1.NodeRuntimeHandler) *corev1.Node {
		return &corev1.Node{Status: corev1.NodeStatus{
			NodeInfo: corev1.NodeSystemInfo{KubeletVersion: kubelet, KernelVersion: kernel}, RuntimeHandlers: handlers,
		}}
	}
	able := corev1.NodeRuntimeHandler{Features: &corev1.NodeRuntimeHandlerFeatures{UserNamespaces: new(true)}}
	other := able
	other.Name = "other"
	for _, tt := range []struct {
		node *corev1.Node
		want bool
	}{
		{node("v1.36.3", "6.18.44-fc", able), true},
		{node("v1.33.0-gke.100", "6.3.0", other, able), true},
		{node("v1.32.9", "6.18.44", able), false},
		{node("v1.36.3", "6.1.0-9-amd64", able), false},
		{node("v1.36.3", "6.18.44", other), false},
		{node("v1.36.3", "6.18.44", corev1.NodeRuntimeHandler{}), false},
		{node("v1.36.3", "6.18.44"), false},
		{node("", "", able), false},
	} {
		if got := mapsUsers(tt.node); got != tt.want {
			t.Errorf("%s, %s, %v: %v", tt.node.Status.NodeInfo.KubeletVersion, tt.node.Status.NodeInfo.KernelVersion, tt.node.Status.RuntimeHandlers, got)
		}
	}
}
