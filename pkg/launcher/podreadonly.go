package launcher

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
)

// ReadOnlyDir is a directory of a pod that nobody in it can change, move or remove. But commands
// can replace one between it and a writable volume, such as /workspace/a of /workspace/a/b. Directly
// in the workdir it is safe.
type ReadOnlyDir struct {
	// Path is the directory, which is made if it is missing: absolute, without colons, and in its shortest
	// form. It may be the workdir or the home directory, or above or below them; what is mounted in it can
	// be written. It cannot be in a workdir that Git fills, nor a directory of the system or the kernel.
	Path string `json:"path"`
	// From is the directory of the image whose content it gets, or empty: absolute, and readable for the
	// pod's user, who owns the copy, made before the agent starts, on the node's disk. It may be Path itself.
	From string `json:"from,omitempty"`
}

// fillName is the container that fills read-only directories. fillDir is where it
// mounts their volumes.
const (
	fillName = "fill"
	fillDir  = "/.podagent/"
)

// mountReadOnly mounts the directories in the agent's container, which must already
// have its other mounts. A mount at the same path is replaced.
func mountReadOnly(pod *corev1.PodSpec, dirs []ReadOnlyDir) {
	c := &pod.Containers[0]
	for i, d := range dirs {
		name := volumeName(i)
		pod.Volumes = append(pod.Volumes, emptyDir(name))
		mount(pod, corev1.VolumeMount{Name: name, MountPath: d.Path, ReadOnly: true})
	}
	if fill := fillContainer(c, dirs); len(fill.Command) > 0 {
		pod.InitContainers = append(pod.InitContainers, fill)
	}
}

func volumeName(i int) string { return fmt.Sprintf("read-only-%d", i) }

// fillContainer returns the container that fills the directories, with the agent
// container's permissions and resources. It has no command if there is nothing to
// do.
func fillContainer(c *corev1.Container, dirs []ReadOnlyDir) corev1.Container {
	fill := corev1.Container{
		Name:            fillName,
		Image:           c.Image,
		WorkingDir:      "/",
		Resources:       c.Resources,
		SecurityContext: c.SecurityContext,
		// This makes the pod say why it failed.
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
	var made, copied []string
	for i, d := range dirs {
		at := fillDir + volumeName(i)
		for _, m := range mountedIn(c.VolumeMounts, d.Path) {
			made = append(made, "--dir="+literal(at+strings.TrimPrefix(m, d.Path)))
		}
		if d.From != "" {
			copied = append(copied, literal(d.From), at)
		}
		fill.VolumeMounts = append(fill.VolumeMounts, corev1.VolumeMount{Name: volumeName(i), MountPath: at})
	}
	if len(made)+len(copied) > 0 {
		fill.VolumeMounts = append(fill.VolumeMounts, installMount(c)...)
		fill.Command = slices.Concat([]string{c.Command[0], "copy"}, made, []string{"--"}, copied)
	}
	return fill
}

// mountedIn returns the paths of the mounts directly in the mount at dir, with no
// other in between: no runtime can create their directories once that mount is
// read-only.
func mountedIn(mounts []corev1.VolumeMount, dir string) []string {
	var in []string
	for _, m := range mounts {
		between := func(other corev1.VolumeMount) bool {
			return isBelow(other.MountPath, dir) && isBelow(m.MountPath, other.MountPath)
		}
		if isBelow(m.MountPath, dir) && !slices.ContainsFunc(mounts, between) {
			in = append(in, m.MountPath)
		}
	}
	return in
}

// sortedDirs returns the directories sorted by path, so that their order does not
// change the pod.
func sortedDirs(dirs []ReadOnlyDir) []ReadOnlyDir {
	sorted := slices.Clone(dirs)
	slices.SortFunc(sorted, func(a, b ReadOnlyDir) int { return strings.Compare(a.Path, b.Path) })
	return sorted
}

// checkReadOnly checks the read-only directories.
func (s *Spec) checkReadOnly() *SpecError {
	const field = "Pod.ReadOnly"
	if n := len(s.Pod.ReadOnly); n > maxReadOnly {
		return &SpecError{field, fmt.Sprintf("has %d directories: at most %d are allowed", n, maxReadOnly)}
	}
	seen := map[string]bool{}
	for _, v := range s.Pod.Volumes {
		seen[v.Path] = true
	}
	workdir := s.workdir()
	for _, d := range s.Pod.ReadOnly {
		if err := checkMountPath(field, d.Path); err != nil {
			return err
		}
		if err := s.checkInReadOnly(d.Path); err != nil {
			return err
		}
		switch {
		case seen[d.Path]:
			return &SpecError{field, fmt.Sprintf("has %q, where something else is mounted", d.Path)}
		case d.From != "" && (!path.IsAbs(d.From) || !utf8.ValidString(d.From) || strings.ContainsRune(d.From, 0)):
			return &SpecError{field, fmt.Sprintf("has content from %q, which is not an absolute path in UTF-8", d.From)}
		case d.From != "" && (path.Clean(d.From) == "/" || isKernels(path.Clean(d.From))):
			return &SpecError{field, fmt.Sprintf("has content from %q, which holds the kernel's own directories", d.From)}
		case s.Git != nil && (d.Path == workdir || isBelow(d.Path, workdir)):
			return &SpecError{field, fmt.Sprintf("has %q, and the workdir must be empty for a repository to be checked out in it", d.Path)}
		}
		seen[d.Path] = true
	}
	return nil
}

// checkProtected checks that the patterns fit into a pod.
func (s *Spec) checkProtected() *SpecError {
	size := 0
	for _, pattern := range s.Protected {
		if !utf8.ValidString(pattern) {
			return &SpecError{"Protected", fmt.Sprintf("has %q, which is not UTF-8: a pod cannot have it", pattern)}
		}
		if size += len(pattern); size > maxPodProtected {
			return &SpecError{"Protected", fmt.Sprintf("has more than %d bytes in all, which a pod cannot take", maxPodProtected)}
		}
	}
	return nil
}
