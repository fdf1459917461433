package launcher

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Volume is a PersistentVolumeClaim, or a directory of one, in a pod. The pod's user can
// write to it if the storage keeps the pod's fsGroup, as local disks and most CSI
// drivers do, or lets everybody write.
type Volume struct {
	Claim string `json:"claim"` // the name of the PersistentVolumeClaim, which must exist
	// SubPath is the directory of the claim that is mounted, and made if it is missing: relative, and
	// in its shortest form. Empty is the whole claim. The pod cannot reach what is beside it. But the
	// node follows symbolic links on the way to it, within the claim, so no directory that a sandbox
	// can write may lie on that way: keep them side by side. A Spec with two that do not is refused.
	SubPath string `json:"subPath,omitempty"`
	// Path is where it is mounted: absolute, without colons, and in its shortest
	// form. It may be the workdir, but no directory of the system or the kernel.
	Path     string `json:"path"`
	ReadOnly bool   `json:"readOnly,omitempty"` // neither commands nor the agent can change it
}

// Workspace is the volume at the workdir of a pod, unless a Volume is there.
type Workspace struct {
	// Size is how much it holds: 1Mi or more; 0 means DefaultWorkspaceSize. A pod is evicted soon after its emptyDir
	// holds more, unless Size is negative. A claim asks for at least as much. One that exists keeps its size: drift.
	Size resource.Quantity `json:"size,omitzero"`
	// Keep makes it a PersistentVolumeClaim of the sandbox's own, whose files outlive the pod, and
	// end with [Kubernetes.Terminate]. It needs an ID. See [Kubernetes.Pause].
	Keep bool `json:"keep,omitempty"`
	// StorageClass names the claim's. Empty is the cluster's default, or else [ErrNoStorageClass].
	StorageClass string `json:"storageClass,omitempty"`
	// Owned makes the workdir belong to the pod's user, for tar, rsync and cp -a, by an init container: docs/pods.md.
	Owned bool `json:"owned,omitempty"`
}

// minWorkspace catches a wrong unit: 1m is a thousandth of a byte.
const minWorkspace = "1Mi"

// workspaceName is the volume at the workdir.
const workspaceName = "workspace"

// volume returns what is mounted at the workdir of the pod of this name.
func (w Workspace) volume(podName string) corev1.Volume {
	if w.Keep {
		return claimVolume(workspaceName, podName)
	}
	v := emptyDir(workspaceName)
	if size, bounded := w.bound(); bounded {
		v.EmptyDir.SizeLimit = &size
	}
	return v
}

// bound returns how much the workspace holds; false if it has no bound.
func (w Workspace) bound() (resource.Quantity, bool) {
	switch w.Size.Sign() {
	case 0:
		return resource.MustParse(DefaultWorkspaceSize), true
	case 1:
		return w.Size.DeepCopy(), true
	}
	return resource.Quantity{}, false
}

// claimSpec returns what the sandbox's own claim asks of the storage.
func (w Workspace) claimSpec() corev1.PersistentVolumeClaimSpec {
	spec := corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
	}
	size, _ := w.bound()
	spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: size}
	if w.StorageClass != "" {
		spec.StorageClassName = &w.StorageClass
	}
	return spec
}

func claimVolume(name, claim string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}
}

// mountVolumes mounts the volumes in the agent's container. Each claim is one
// volume of the pod.
func mountVolumes(pod *corev1.PodSpec, volumes []Volume) {
	names := map[string]string{}
	for _, v := range volumes {
		if names[v.Claim] == "" {
			names[v.Claim] = fmt.Sprintf("claim-%d", len(names))
			pod.Volumes = append(pod.Volumes, claimVolume(names[v.Claim], v.Claim))
		}
		mount(pod, corev1.VolumeMount{Name: names[v.Claim], MountPath: v.Path, SubPath: v.SubPath, ReadOnly: v.ReadOnly})
	}
	keepOwners(pod)
}

// mount mounts a volume in the agent's container. A mount at the same path is
// replaced, with its volume.
func mount(pod *corev1.PodSpec, m corev1.VolumeMount) {
	c := &pod.Containers[0]
	if at := slices.IndexFunc(c.VolumeMounts, func(other corev1.VolumeMount) bool { return other.MountPath == m.MountPath }); at >= 0 {
		gone := c.VolumeMounts[at].Name
		c.VolumeMounts = slices.Delete(c.VolumeMounts, at, at+1)
		pod.Volumes = slices.DeleteFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == gone })
	}
	c.VolumeMounts = append(c.VolumeMounts, m)
}

// keepOwners keeps the kubelet from going through all files of a claim at each
// start: their group has not changed since the last time.
func keepOwners(pod *corev1.PodSpec) {
	isClaim := func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil }
	if s := pod.SecurityContext; s != nil && s.FSGroup != nil && slices.ContainsFunc(pod.Volumes, isClaim) {
		s.FSGroupChangePolicy = new(corev1.FSGroupChangeOnRootMismatch)
	}
}

// checkVolumes checks the volumes of claims.
func (s *Spec) checkVolumes() *SpecError {
	const field = "Pod.Volumes"
	if n := len(s.Pod.Volumes); n > maxVolumes {
		return &SpecError{field, fmt.Sprintf("has %d volumes: at most %d are allowed", n, maxVolumes)}
	}
	seen := map[string]bool{}
	for _, v := range s.Pod.Volumes {
		if err := s.checkInReadOnly(v.Path); err != nil {
			return err
		}
		if problems := validation.IsDNS1123Subdomain(v.Claim); len(problems) > 0 {
			return &SpecError{field, fmt.Sprintf("has the claim %q: %s", v.Claim, problems[0])}
		}
		if err := checkMountPath(field, v.Path); err != nil {
			return err
		}
		switch {
		case seen[v.Path]:
			return &SpecError{field, fmt.Sprintf("has %q twice", v.Path)}
		case !isSubPath(v.SubPath):
			return &SpecError{field, fmt.Sprintf("has %q, which is not a relative path within the claim in its shortest form", v.SubPath)}
		case s.Git != nil && isBelow(v.Path, s.workdir()):
			return &SpecError{field, fmt.Sprintf("has %q, and the workdir must be empty for a repository to be checked out in it", v.Path)}
		case s.Pod.Workspace.isSet() && v.Path == s.workdir():
			return &SpecError{"Pod.Workspace", fmt.Sprintf("is set, and the claim %q is mounted there", v.Claim)}
		}
		if above, ok := s.writableAbove(v); ok {
			return &SpecError{field, fmt.Sprintf("has %q of the claim %q, which is below its %q, where the sandbox could replace it with a link", v.SubPath, v.Claim, above)}
		}
		seen[v.Path] = true
	}
	return nil
}

// writableAbove returns the directory of the same claim that contains the volume
// and that the sandbox can write, if there is one. A sandbox that can write the
// whole claim needs no link to reach all of it.
func (s *Spec) writableAbove(v Volume) (dir string, ok bool) {
	for _, other := range s.Pod.Volumes {
		if other.Claim == v.Claim && other.SubPath != "" && !other.ReadOnly && isBelow(v.SubPath, other.SubPath) {
			return other.SubPath, true
		}
	}
	return "", false
}

// checkInReadOnly checks that dir is not in a claim that is mounted read-only,
// where the directory for another mount cannot be created.
func (s *Spec) checkInReadOnly(dir string) *SpecError {
	for _, v := range s.Pod.Volumes {
		if v.ReadOnly && isBelow(dir, v.Path) {
			return &SpecError{"Pod.Volumes", fmt.Sprintf("has %q read-only, so nothing can be mounted at %q in it", v.Path, dir)}
		}
	}
	return nil
}

// isSubPath reports whether p is a directory of a claim that can be mounted.
func isSubPath(p string) bool {
	return p == "" || !path.IsAbs(p) && p == path.Clean(p) && p != "." && p != ".." && !strings.HasPrefix(p, "../") &&
		utf8.ValidString(p) && strings.IndexByte(p, 0) < 0
}

func (w Workspace) isSet() bool { return w.Keep || w.Owned || !w.Size.IsZero() }

// traits returns the fields of w that matter to a pod, but for Owned, which is a trait of its own.
func (w Workspace) traits() Workspace {
	w.Owned = false
	if !w.Keep {
		w.StorageClass = ""
	}
	return w
}

// checkWorkspace checks the volume at the workdir.
func (s *Spec) checkWorkspace() *SpecError {
	const field = "Pod.Workspace"
	w := s.Pod.Workspace
	switch {
	case w.Keep && w.Size.Sign() < 0:
		return &SpecError{field, "is kept, and a claim has a size"}
	case w.Size.Sign() > 0 && w.Size.Cmp(resource.MustParse(minWorkspace)) < 0:
		return &SpecError{field, fmt.Sprintf("has the size %s: it is at least %s", w.Size.String(), minWorkspace)}
	case (w.Keep || w.Owned) && slices.ContainsFunc(s.Pod.ReadOnly, func(d ReadOnlyDir) bool { return d.Path == s.workdir() }):
		return &SpecError{field, fmt.Sprintf("cannot be kept or owned, because %q is read-only", s.workdir())}
	case w.Keep && s.ID == "":
		return &SpecError{field, "cannot be kept without an ID, because nobody could find it"}
	}
	if w.StorageClass != "" {
		if problems := validation.IsDNS1123Subdomain(w.StorageClass); len(problems) > 0 {
			return &SpecError{field, fmt.Sprintf("has the StorageClass %q: %s", w.StorageClass, problems[0])}
		}
	}
	return nil
}

// workdir returns where relative paths start in a pod.
func (s *Spec) workdir() string { return cmp.Or(s.Workdir, defaultWorkdir) }

// sortedVolumes returns the volumes sorted by path, so that their order does not
// change the pod.
func sortedVolumes(volumes []Volume) []Volume {
	sorted := slices.Clone(volumes)
	slices.SortFunc(sorted, func(a, b Volume) int { return strings.Compare(a.Path, b.Path) })
	return sorted
}
