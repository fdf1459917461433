package launcher

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// This file says what is where in the volume of a workspace: the files, which are at the workdir, are in one
// directory of it, and the checkpoints of them in another, which is mounted elsewhere. So a checkpoint can share
// blocks with the files, nothing that looks through the workdir finds it, and both outlive the container, or the
// pod. The node makes both directories, with the mode of the volume's root. Nothing of the pod mounts
// the root, but for the program that makes an owned workdir: no command can put a link in their place.
//
// The claim of a workspace says by podmeta.AnnotationFilesIn where its files are, from its creation on, and
// every pod that is made for it mounts them there, whatever its Spec says: claims of older versions have them
// in the root, and then no checkpoints.

const (
	filesDir = "files"
	storeDir = "checkpoints"
	// storeAt is where the agent has the checkpoints.
	storeAt = fillDir + storeDir
	// filesForm is the form of a claim with such directories, and of a pod that waits in a pool with one.
	// Orchestrators that know form 2 only would mount the root, and find the files in a directory below.
	filesForm = "3"
)

// The variables of an agent that keeps checkpoints. Older agents ignore variables, and would refuse flags.
const (
	storeVariable  = "PODAGENT_CHECKPOINTS"
	volumeVariable = "PODAGENT_CHECKPOINTS_VOLUME"
)

// layOut mounts the directories of the workspace's volume in a pod that has its other mounts, unless something else is
// at the workdir.
func layOut(pod *corev1.PodSpec, w Workspace) {
	c := &pod.Containers[0]
	if !slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == workspaceName }) {
		return
	}
	mountFiles(pod, filesDir)
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: workspaceName, MountPath: storeAt, SubPath: storeDir})
	c.Env = append(c.Env, corev1.EnvVar{Name: storeVariable, Value: storeAt})
	if size, ok := volumeSize(pod, w); ok {
		c.Env = append(c.Env, corev1.EnvVar{Name: volumeVariable, Value: strconv.FormatInt(size.Value(), 10)})
	}
	if w.Owned {
		own(pod)
	}
}

// volumeSize returns how much a volume on the node's disk may hold until the pod is evicted: no file system
// tells the agent. It returns false for a claim, whose file system does.
func volumeSize(pod *corev1.PodSpec, w Workspace) (resource.Quantity, bool) {
	size, ok := w.bound()
	if w.Keep {
		return size, false
	}
	if most, limited := pod.Containers[0].Resources.Limits[corev1.ResourceEphemeralStorage]; limited && (!ok || most.Cmp(size) < 0) {
		return most, !most.IsZero()
	}
	return size, ok
}

// flatten is the opposite of layOut, for a volume whose files are in its root.
func flatten(pod *corev1.PodSpec) {
	mountFiles(pod, "")
	disown(pod)
	for i := range pod.Containers {
		if c := &pod.Containers[i]; c.Name == containerName {
			c.VolumeMounts = slices.DeleteFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == workspaceName && m.SubPath == storeDir })
			c.Env = slices.DeleteFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == storeVariable || v.Name == volumeVariable })
		}
	}
}

// mountFiles makes the containers mount the directory of the workspace's volume that has the files, also those that a
// patch has added, which name the volume alone.
func mountFiles(pod *corev1.PodSpec, dir string) {
	for _, list := range [][]corev1.Container{pod.Containers, pod.InitContainers} {
		for i := range list {
			for j := range list[i].VolumeMounts {
				m := &list[i].VolumeMounts[j]
				if m.Name == workspaceName && m.MountPath != ownedAt && m.SubPathExpr == "" && (m.SubPath == "" || m.SubPath == filesDir) {
					m.SubPath = dir
				}
			}
		}
	}
}

// filesIn returns the annotations of a claim that is about to be made, which say where its files are.
func (w Workspace) filesIn() map[string]string {
	of := ofRoot
	if w.Owned {
		of = ofUser
	}
	return map[string]string{podmeta.AnnotationFilesIn: filesDir, podmeta.AnnotationFilesOf: of, podmeta.AnnotationForm: filesForm}
}

// mountClaim makes a claim that exists the workspace of a pod that is about to be created.
func mountClaim(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) {
	mountWorkspace(pod, claimVolume(workspaceName, claim.Name))
	switch {
	case claim.Annotations[podmeta.AnnotationFilesIn] != filesDir:
		flatten(&pod.Spec)
	case hasOwned(claim):
		pod.Annotations[podmeta.AnnotationFilesOf] = ofUser // maybe by an earlier pod
	default:
		disown(&pod.Spec)
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
