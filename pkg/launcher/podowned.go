package launcher

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// This file gives the workdir of a pod to the sandbox's user. The root of a volume belongs to root in all
// storage, and nobody without rights can change that. So an owned workspace is a directory of the volume,
// which an init container makes as that user. The node mounts it at the workdir once it is there.
//
// The claim of a workspace says by podmeta.AnnotationFilesIn where its files are, from its creation on, and
// every pod that is made for it mounts them there, whatever its Spec says: claims of older versions, and
// those of launches that did not ask for this, have them in the root.

const (
	// ownedDir is the directory of the volume.
	ownedDir = "files"
	// ownedAt is where the init container mounts the volume.
	ownedAt = fillDir + workspaceName
	// makeOwned is the flag by which podagent makes the directory.
	makeOwned = "--dir=" + ownedAt + "/" + ownedDir
	// ownedForm is the form of a claim with such a directory, and of a pod that waits in a pool with one.
	// Orchestrators that know form 2 only would mount the root, and find the files in a directory below.
	ownedForm = "3"
)

// own makes the workdir of a pod, which must have all its mounts, a directory of the workspace's volume. If
// the pod installs podagent, what does that makes the directory, too; else what fills read-only directories.
func own(pod *corev1.PodSpec) {
	mountFiles(pod, ownedDir)
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

// disown is the opposite of own, for a volume whose files are in its root.
func disown(pod *corev1.PodSpec) {
	mountFiles(pod, "")
	pod.InitContainers = slices.DeleteFunc(pod.InitContainers, func(c corev1.Container) bool {
		return c.Name == fillName && slices.Equal(c.Command, []string{c.Command[0], "copy", makeOwned})
	})
	for i := range pod.InitContainers {
		if c := &pod.InitContainers[i]; c.Name == installName || c.Name == fillName {
			c.Command = slices.DeleteFunc(slices.Clone(c.Command), func(arg string) bool { return arg == makeOwned })
			c.VolumeMounts = slices.DeleteFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == ownedAt })
		}
	}
}

// mountFiles makes the agent's container mount a directory of the workspace's volume.
func mountFiles(pod *corev1.PodSpec, dir string) {
	for i := range pod.Containers {
		for j := range pod.Containers[i].VolumeMounts {
			if m := &pod.Containers[i].VolumeMounts[j]; pod.Containers[i].Name == containerName && m.Name == workspaceName {
				m.SubPath = dir
			}
		}
	}
}

// isOwned reports whether the workdir of a pod is a directory that was made for its user.
func isOwned(pod *corev1.Pod) bool {
	agent := agentContainer(pod)
	return agent != nil && slices.ContainsFunc(agent.VolumeMounts, func(m corev1.VolumeMount) bool {
		return m.Name == workspaceName && m.SubPath == ownedDir
	})
}

// filesIn returns the annotations of a claim that is about to be made, which say where its files are.
func (w Workspace) filesIn() map[string]string {
	if !w.Owned {
		return nil
	}
	return map[string]string{podmeta.AnnotationFilesIn: ownedDir, podmeta.AnnotationForm: ownedForm}
}

// hasOwned reports whether the files of a claim are in a directory that was made for the sandbox's user.
func hasOwned(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Annotations[podmeta.AnnotationFilesIn] == ownedDir
}

// mountClaim makes a claim that exists the workspace of a pod that is about to be created.
func mountClaim(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) {
	mountWorkspace(pod, claimVolume(workspaceName, claim.Name))
	switch {
	case !hasOwned(claim):
		disown(&pod.Spec)
	case !isOwned(pod):
		mountFiles(&pod.Spec, ownedDir) // it was made for another pod
	}
}

// mountWorkspace puts a volume in the place of that at the workdir.
func mountWorkspace(pod *corev1.Pod, volume corev1.Volume) {
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Name == workspaceName {
			pod.Spec.Volumes[i] = volume
		}
	}
}
