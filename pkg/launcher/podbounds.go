package launcher

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// resources returns what the agent's container requests and gets at most.
func resources(pod *Pod) corev1.ResourceRequirements {
	r := *pod.Resources.DeepCopy()
	if r.Requests == nil {
		r.Requests = corev1.ResourceList{}
	}
	if r.Limits == nil {
		r.Limits = corev1.ResourceList{}
	}
	request(&r, corev1.ResourceCPU, resource.MustParse(DefaultCPU))
	request(&r, corev1.ResourceMemory, resource.MustParse(DefaultMemory))
	// A node that does not account for its disk can hold no pod that requests any.
	request(&r, corev1.ResourceEphemeralStorage, resource.Quantity{Format: resource.BinarySI})
	limit(&r, corev1.ResourceCPU, resource.MustParse(DefaultCPULimit))
	limit(&r, corev1.ResourceMemory, resource.MustParse(DefaultMemoryLimit))
	if size, ok := pod.diskLimit(); ok {
		limit(&r, corev1.ResourceEphemeralStorage, size)
	}
	for name, most := range r.Limits {
		if most.IsZero() { // no limit: see Pod.Resources
			delete(r.Limits, name)
		}
	}
	return r
}

// request requests an amount, unless the container already requests some. The cluster
// takes a limit for a request where there is none.
func request(r *corev1.ResourceRequirements, name corev1.ResourceName, amount resource.Quantity) {
	_, requested := r.Requests[name]
	most, limited := r.Limits[name]
	if requested || limited && !most.IsZero() {
		return
	}
	r.Requests[name] = amount
}

// limit sets a limit, unless the container has one, and no lower one than it requests.
func limit(r *corev1.ResourceRequirements, name corev1.ResourceName, most resource.Quantity) {
	if _, limited := r.Limits[name]; limited {
		return
	}
	if requested := r.Requests[name]; requested.Cmp(most) > 0 {
		most = requested
	}
	r.Limits[name] = most
}

// diskLimit returns how much of the node's disk the pod may use by default; false if
// its workspace is there and has no bound.
func (p *Pod) diskLimit() (resource.Quantity, bool) {
	most := resource.MustParse(DefaultDiskLimit)
	if p.Workspace.Keep {
		return most, true
	}
	size, bounded := p.Workspace.bound()
	most.Add(size)
	return most, bounded
}

// emptyDir returns a volume on the node's disk.
func emptyDir(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
}

// boundDirs gives each emptyDir without a size the limit of all that the pod has on the
// node's disk, if there is one. The kubelet then says which of them was too large.
func boundDirs(pod *corev1.PodSpec) {
	most, ok := pod.Containers[0].Resources.Limits[corev1.ResourceEphemeralStorage]
	if !ok {
		return
	}
	for _, v := range pod.Volumes {
		if v.EmptyDir != nil && v.EmptyDir.SizeLimit == nil && v.Name != workspaceName {
			v.EmptyDir.SizeLimit = new(most.DeepCopy())
		}
	}
}
