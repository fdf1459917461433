package launcher

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// makers are the commands of a pod's init containers, by their names.
func makers(pod *corev1.Pod) map[string][]string {
	commands := map[string][]string{}
	for _, c := range pod.Spec.InitContainers {
		commands[c.Name] = c.Command
	}
	return commands
}

// ownable are Specs whose pods have no init container, the one that installs podagent, the one that fills
// directories, and both.
func ownable() map[string]*Spec {
	filled := []ReadOnlyDir{{Path: "/skills", From: "/opt/skills"}}
	specs := map[string]*Spec{
		"plain":     {ID: "a", Pod: Pod{Image: "i"}},
		"installed": {ID: "a", Pod: Pod{Image: "i", AgentImage: "j"}},
		"filled":    {ID: "a", Pod: Pod{Image: "i", ReadOnly: filled}},
		"both":      {ID: "a", Pod: Pod{Image: "i", AgentImage: "j", ReadOnly: filled}},
	}
	for _, spec := range specs {
		spec.Pod.Workspace.Owned = true
	}
	return specs
}

func TestOneInitContainerMakesAnOwnedWorkspace(t *testing.T) {
	const made = "--dir=/.podagent/workspace/files"
	filling := []string{"--", "/opt/skills", "/.podagent/read-only-0"}
	for name, want := range map[string]map[string][]string{
		"plain":     {"fill": {"podagent", "copy", made}},
		"installed": {"install": {"podagent", "install", made, "/.podagent/bin"}},
		"filled":    {"fill": append([]string{"podagent", "copy", made}, filling...)},
		"both": {
			"install": {"podagent", "install", made, "/.podagent/bin"},
			"fill":    append([]string{"/.podagent/bin/podagent", "copy"}, filling...),
		},
	} {
		spec := ownable()[name]
		if err := spec.validatePod(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		pod := manifest(spec, "n", nil, time.Now())
		if diff := cmp.Diff(want, makers(pod)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		for _, c := range pod.Spec.InitContainers {
			mounted := slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
				return m.Name == "workspace" && m.MountPath == "/.podagent/workspace" && m.SubPath == ""
			})
			if mounted != slices.Contains(c.Command, made) {
				t.Errorf("%s: the container %s has the mounts %v", name, c.Name, c.VolumeMounts)
			}
		}
		if m := pod.Spec.Containers[0].VolumeMounts[0]; m.MountPath != "/workspace" || m.SubPath != "files" {
			t.Errorf("%s: at the workdir is %+v", name, m)
		}
	}
}

// The claim decides where its files are: a pod that is made for one of before has no checkpoints, and one that did
// not ask for an owned workspace gets one if the claim has it.
func TestPodMountsTheFilesWhereTheClaimHasThem(t *testing.T) {
	for name, spec := range ownable() {
		now := time.Now()
		owned := manifest(spec, "n", nil, now)
		spec.Pod.Workspace.Owned = false
		plain := manifest(spec, "n", nil, now)
		before := plain.DeepCopy() // as pods were
		c := &before.Spec.Containers[0]
		c.VolumeMounts = slices.DeleteFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == "/.podagent/checkpoints" })
		c.VolumeMounts[0].SubPath = ""
		c.Env = slices.DeleteFunc(c.Env, func(v corev1.EnvVar) bool { return strings.HasPrefix(v.Name, "PODAGENT_CHECKPOINTS") })
		users, roots := Workspace{Owned: true}.filesIn(), Workspace{}.filesIn()
		for _, at := range []struct {
			claim     map[string]string
			pod, like *corev1.Pod
		}{
			{users, owned, owned}, {users, plain, plain}, {roots, owned, plain}, {roots, plain, plain}, {nil, owned, before}, {nil, plain, before},
		} {
			pod, want := at.pod.DeepCopy(), at.like.DeepCopy()
			mountClaim(pod, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "claim", Annotations: at.claim}})
			want.Spec.Volumes[0] = claimVolume("workspace", "claim")
			want.Annotations[podmeta.AnnotationSpec] = pod.Annotations[podmeta.AnnotationSpec]
			if isOwned := at.claim[podmeta.AnnotationFilesOf] == "user"; isOwned {
				want.Annotations[podmeta.AnnotationFilesOf] = "user"
			}
			if diff := cmp.Diff(want, pod, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s, for the claim %v: %s", name, at.claim, diff)
			}
		}
	}
}

// A container of a patch that mounts the workspace sees the workdir.
func TestPatchesMountTheFilesOfTheWorkspace(t *testing.T) {
	spec := &Spec{ID: "a", Pod: Pod{Image: "i", Patch: []byte(`{"spec": {"containers": [{"name": "beside", "image": "j",
		"volumeMounts": [{"name": "workspace", "mountPath": "/data"}, {"name": "workspace", "mountPath": "/sub", "subPath": "other"}]}]}}`)}}
	pod, problem := patched(manifest(spec, "n", nil, time.Now()), spec.Pod.Patch)
	if problem != nil {
		t.Fatal(problem)
	}
	mountFiles(&pod.Spec, filesDir)
	i := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == "beside" })
	want := []corev1.VolumeMount{{Name: "workspace", MountPath: "/data", SubPath: "files"}, {Name: "workspace", MountPath: "/sub", SubPath: "other"}}
	if diff := cmp.Diff(want, pod.Spec.Containers[i].VolumeMounts, cmpopts.SortSlices(func(a, b corev1.VolumeMount) bool { return a.MountPath < b.MountPath })); diff != "" {
		t.Error(diff)
	}
}

func TestAgentKnowsWhatAVolumeOnTheNodesDiskMayHold(t *testing.T) {
	for name, at := range map[string]struct {
		pod  Pod
		want string
	}{
		"default":               {Pod{}, "10737418240"},
		"its size":              {Pod{Workspace: Workspace{Size: resource.MustParse("1Gi")}}, "1073741824"},
		"no bound":              {Pod{Workspace: Workspace{Size: resource.MustParse("-1")}}, ""},
		"the pod's, if smaller": {Pod{Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("1Mi")}}}, "1048576"},
		"a claim":               {Pod{Workspace: Workspace{Keep: true}}, ""},
		"another volume there":  {Pod{Volumes: []Volume{{Claim: "c", Path: "/workspace"}}}, ""},
	} {
		at.pod.Image = "i"
		c := manifest(&Spec{ID: "a", Pod: at.pod}, "n", nil, time.Now()).Spec.Containers[0]
		if got := variable(c.Env, "PODAGENT_CHECKPOINTS_VOLUME").Value; got != at.want {
			t.Errorf("%s: %q, want %q", name, got, at.want)
		}
		if kept := variable(c.Env, "PODAGENT_CHECKPOINTS").Value != ""; kept != (name != "another volume there") {
			t.Errorf("%s: checkpoints: %v", name, kept)
		}
	}
}

func TestWorkspaceCannotBeOwnedWhereItIsNotTheVolume(t *testing.T) {
	for name, pod := range map[string]Pod{
		"a claim":   {Image: "i", Volumes: []Volume{{Claim: "c", Path: "/workspace"}}},
		"read-only": {Image: "i", ReadOnly: []ReadOnlyDir{{Path: "/workspace"}}},
	} {
		spec := Spec{ID: "a", Pod: pod}
		if err := spec.validatePod(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		spec.Pod.Workspace.Owned = true
		if err, ok := spec.validatePod().(*SpecError); !ok || err.Field != "Pod.Workspace" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOwnedWorkspaceIsNoDriftForThoseWhoDoNotAskForIt(t *testing.T) {
	spec := &Spec{ID: "a", Pod: Pod{Image: "i"}}
	plain := manifest(spec, "n", nil, time.Now())
	asking := *spec
	asking.Pod.Workspace.Owned = true
	owned := manifest(&asking, "n", nil, time.Now())
	if drift := driftOf(owned, spec); len(drift) > 0 {
		t.Errorf("an owned workspace: %q", drift)
	}
	if drift := driftOf(plain, &asking); !slices.Equal(drift, []string{"workspaceOwned is unset, not true"}) {
		t.Errorf("one that is not: %q", drift)
	}
}
