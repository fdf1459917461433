package launcher

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
)

// User namespaces are on by default since this kubelet, and volumes with the pod's own
// users are complete since this kernel:
// https://kubernetes.io/docs/concepts/workloads/pods/user-namespaces/
var (
	usersKubelet = version.MustParseGeneric("1.33")
	usersKernel  = version.MustParseGeneric("6.3")
)

// preferUserNamespace gives the pod a user namespace of its own, unless somebody has
// decided that already, or it is not known to work.
func (c *cluster) preferUserNamespace(ctx context.Context, pod *corev1.Pod) {
	if s := &pod.Spec; s.HostUsers == nil && s.RuntimeClassName == nil && !slices.ContainsFunc(s.Volumes, isForeign) && c.nodesMapUsers(ctx) {
		s.HostUsers = new(false)
	}
}

// ownUsers reports whether the pod asks for a user namespace of its own.
func ownUsers(pod *corev1.Pod) bool { return pod.Spec.HostUsers != nil && !*pod.Spec.HostUsers }

// isForeign reports whether a volume may be on a file system that cannot show it with
// the pod's own users, such as NFS.
func isForeign(v corev1.Volume) bool {
	return v.PersistentVolumeClaim != nil || v.Ephemeral != nil || v.CSI != nil || v.Image != nil
}

// nodesMapUsers reports whether all nodes are known to support user namespaces.
func (c *cluster) nodesMapUsers(ctx context.Context) bool {
	nodes, err := c.api.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: maxNodes})
	if err != nil || nodes.Continue != "" || len(nodes.Items) == 0 {
		c.log.Debug("cannot tell whether nodes support user namespaces", "error", err)
		return false
	}
	return !slices.ContainsFunc(nodes.Items, func(n corev1.Node) bool { return !mapsUsers(&n) })
}

// mapsUsers reports whether a node supports user namespaces under its default runtime.
func mapsUsers(node *corev1.Node) bool {
	info := node.Status.NodeInfo
	kubelet, err := version.ParseGeneric(info.KubeletVersion)
	if err != nil || kubelet.LessThan(usersKubelet) {
		return false
	}
	kernel, err := version.ParseGeneric(info.KernelVersion)
	if err != nil || kernel.LessThan(usersKernel) {
		return false
	}
	return slices.ContainsFunc(node.Status.RuntimeHandlers, func(h corev1.NodeRuntimeHandler) bool {
		return h.Name == "" && h.Features != nil && h.Features.UserNamespaces != nil && *h.Features.UserNamespaces
	})
}
