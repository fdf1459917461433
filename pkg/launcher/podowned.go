package launcher

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// This file gives the workdir of a pod to the sandbox's user. What the node makes in a volume belongs to
// root in all storage, and nobody without rights can change that. So an init container makes the directory of an
// owned workspace as that user, before the node mounts it.

const (
	// ownedAt is where the init container mounts the volume.
	ownedAt = fillDir + workspaceName
	// makeOwned is the flag by which podagent makes the directory.
	makeOwned = "--dir=" + ownedAt + "/" + filesDir
	// ofRoot and ofUser are the values of podmeta.AnnotationFilesOf.
	ofRoot = "root"
	ofUser = "user"
)

// own has the directory of the files made for the sandbox's user, in a pod that must have all its mounts. If
// the pod installs podagent, what does that makes the directory, too; else what fills read-only directories.
func own(pod *corev1.PodSpec) {
	i := slices.IndexFunc(pod.InitContainers, func(c corev1.Container) bool { return c.Name == installName })
	if i < 0 {
		i = slices.IndexFunc(pod.InitContainers, func(c corev1.Container) bool { return c.Name == fillName })
	}
	if i < 0 {
		pod.InitContainers = append(pod.InitContainers, fillContainer(&pod.Containers[0], nil))
		i = len(pod.InitContainers) - 1
		pod.InitContainers[i].Command = []string{pod.Containers[0].Command[0], "copy"}
	}
	c := &pod.InitContainers[i]
	c.Command = slices.Insert(slices.Clone(c.Command), 2, makeOwned) // after the program and its verb
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: workspaceName, MountPath: ownedAt})
}

// disown is the opposite of own.
func disown(pod *corev1.PodSpec) {
	pod.InitContainers = slices.DeleteFunc(pod.InitContainers, func(c corev1.Container) bool {
		return c.Name == fillName && slices.Equal(c.Command, []string{c.Command[0], "copy", makeOwned})
	})
	makeNoOwned(pod)
}

// makeNoOwned has the init containers do all but make the directory.
func makeNoOwned(pod *corev1.PodSpec) {
	for i := range pod.InitContainers {
		if c := &pod.InitContainers[i]; c.Name == installName || c.Name == fillName {
			c.Command = slices.DeleteFunc(slices.Clone(c.Command), func(arg string) bool { return arg == makeOwned })
			c.VolumeMounts = slices.DeleteFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == ownedAt })
		}
	}
}

// isOwned reports whether the workdir of a pod is a directory that was made for its user.
func isOwned(pod *corev1.Pod) bool {
	return pod.Annotations[podmeta.AnnotationFilesOf] == ofUser || slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return slices.Contains(c.Command, makeOwned) })
}

// hasOwned reports whether the files of a claim are in a directory that was made for the sandbox's user.
func hasOwned(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Annotations[podmeta.AnnotationFilesIn] == filesDir && claim.Annotations[podmeta.AnnotationFilesOf] != ofRoot
}
