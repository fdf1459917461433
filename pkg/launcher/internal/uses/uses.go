// Package uses says what sandboxes use of a cluster, as far as their pods' specs bound it.
package uses

import (
	corev1 "k8s.io/api/core/v1"
)

// Of returns the processor and memory that the containers of a pod get at most, or request where
// they have no limit, and the size of the volume at its workdir, which has this name: that of the
// claim, or of an emptyDir, where it has one. claim may be nil.
func Of(pod *corev1.PodSpec, workspace string, claim *corev1.PersistentVolumeClaimSpec) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		for i := range pod.Containers {
			add(sum, name, &pod.Containers[i])
		}
		for i := range pod.InitContainers { // others end before the containers start
			if always := pod.InitContainers[i].RestartPolicy; always != nil && *always == corev1.ContainerRestartPolicyAlways {
				add(sum, name, &pod.InitContainers[i])
			}
		}
	}
	for _, v := range pod.Volumes {
		switch {
		case v.Name != workspace:
		case v.EmptyDir != nil && v.EmptyDir.SizeLimit != nil:
			sum[corev1.ResourceStorage] = v.EmptyDir.SizeLimit.DeepCopy()
		case v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil && claim == nil:
			claim = &v.Ephemeral.VolumeClaimTemplate.Spec
		}
	}
	if claim != nil {
		sum[corev1.ResourceStorage] = claim.Resources.Requests[corev1.ResourceStorage]
	}
	return sum
}

func add(sum corev1.ResourceList, name corev1.ResourceName, c *corev1.Container) {
	amount, limited := c.Resources.Limits[name]
	if !limited {
		amount = c.Resources.Requests[name]
	}
	all := sum[name]
	all.Add(amount)
	sum[name] = all
}
