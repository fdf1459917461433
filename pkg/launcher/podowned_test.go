package launcher

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
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

// The claim decides where its files are: a pod that is made for an old one, or one that did not ask for
// an owned workspace, is as if it had been asked for that.
func TestPodMountsTheFilesWhereTheClaimHasThem(t *testing.T) {
	for name, spec := range ownable() {
		now := time.Now()
		owned := manifest(spec, "n", nil, now)
		spec.Pod.Workspace.Owned = false
		plain := manifest(spec, "n", nil, now)
		claims := map[bool]*corev1.PersistentVolumeClaim{}
		for _, isOwned := range []bool{true, false} {
			claims[isOwned] = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
				Name: "claim", Annotations: Workspace{Owned: isOwned}.filesIn(),
			}}
		}
		for _, at := range []struct {
			claim     bool
			pod, like *corev1.Pod
			dir       string
		}{
			{true, owned.DeepCopy(), owned, "files"},
			{false, owned.DeepCopy(), plain, ""},
			{true, plain.DeepCopy(), plain, "files"},
			{false, plain.DeepCopy(), plain, ""},
		} {
			mountClaim(at.pod, claims[at.claim])
			want := at.like.DeepCopy()
			want.Spec.Volumes[0] = claimVolume("workspace", "claim")
			want.Spec.Containers[0].VolumeMounts[0].SubPath = at.dir
			want.Annotations[podmeta.AnnotationSpec] = at.pod.Annotations[podmeta.AnnotationSpec]
			if diff := cmp.Diff(want, at.pod, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s, mounted in %q: %s", name, at.dir, diff)
			}
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
