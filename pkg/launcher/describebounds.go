package launcher

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What is said of a limit or protection that the pod does not have, or that only its node
// knows.
const (
	noBound      = "none"
	unknownBound = "unknown"
	runtimes     = "the runtime's default"
)

// boundsOf returns the limits and protections of the agent's container: see
// Description.Bounds.
func (c *cluster) boundsOf(ctx context.Context, pod *corev1.Pod) map[string]string {
	agent := agentContainer(pod)
	if agent == nil {
		return nil
	}
	s := contextOf(pod, agent)
	bounds := map[string]string{
		"workspace":      workspaceBound(pod),
		"processes":      unknownBound, // podPidsLimit, a setting of the kubelet
		"capabilities":   capabilitiesOf(s),
		"seccomp":        seccompOf(s),
		"apparmor":       appArmorOf(s),
		"read-only-root": yesOrNo(hasReadOnlyRoot(agent)),
		"own-workspace":  yesOrNo(isOwned(pod)),
		"user-namespace": c.usersOf(ctx, pod),
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		bounds[string(name)] = limitOf(pod, agent, name)
	}
	return bounds
}

func yesOrNo(is bool) string { return map[bool]string{true: "yes", false: "no"}[is] }

// contextOf returns the container's security context with what it has from the pod's.
func contextOf(pod *corev1.Pod, agent *corev1.Container) *corev1.SecurityContext {
	s := &corev1.SecurityContext{}
	if agent.SecurityContext != nil {
		s = agent.SecurityContext.DeepCopy()
	}
	if all := pod.Spec.SecurityContext; all != nil {
		if s.SeccompProfile == nil {
			s.SeccompProfile = all.SeccompProfile
		}
		if s.AppArmorProfile == nil {
			s.AppArmorProfile = all.AppArmorProfile
		}
	}
	return s
}

// limitOf returns a limit as the node applies it, or, if the node has not said, as the pod
// asks for it.
func limitOf(pod *corev1.Pod, agent *corev1.Container, name corev1.ResourceName) string {
	for _, s := range pod.Status.ContainerStatuses {
		if s.Name != containerName || s.Resources == nil {
			continue
		}
		if q, ok := s.Resources.Limits[name]; ok {
			return q.String()
		}
	}
	if q, ok := agent.Resources.Limits[name]; ok {
		return q.String()
	}
	return noBound
}

func workspaceBound(pod *corev1.Pod) string {
	i := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == workspaceName })
	switch v := at(pod.Spec.Volumes, i); {
	case v.EmptyDir != nil && v.EmptyDir.SizeLimit != nil:
		return v.EmptyDir.SizeLimit.String()
	case v.EmptyDir != nil:
		return noBound
	}
	return "that of its claim"
}

func capabilitiesOf(s *corev1.SecurityContext) string {
	if s.Privileged != nil && *s.Privileged {
		return "all"
	}
	var words []string
	capabilities := corev1.Capabilities{}
	if s.Capabilities != nil {
		capabilities = *s.Capabilities
	}
	if !slices.Contains(capabilities.Drop, "ALL") {
		words = append(words, runtimes)
		for _, name := range capabilities.Drop {
			words = append(words, "-"+string(name))
		}
	}
	for _, name := range capabilities.Add {
		words = append(words, "+"+string(name))
	}
	if len(words) == 0 {
		return noBound
	}
	return strings.Join(words, " ")
}

func seccompOf(s *corev1.SecurityContext) string {
	p := s.SeccompProfile
	switch {
	case p == nil: // as the kubelet is set
		return unknownBound
	case p.Type == corev1.SeccompProfileTypeRuntimeDefault:
		return runtimes
	case p.Type == corev1.SeccompProfileTypeLocalhost && p.LocalhostProfile != nil:
		return *p.LocalhostProfile
	}
	return noBound
}

// appArmorOf returns the profile. Without one in the pod, the runtime applies its own if
// the node has AppArmor.
func appArmorOf(s *corev1.SecurityContext) string {
	p := s.AppArmorProfile
	switch {
	case p == nil:
		return unknownBound
	case p.Type == corev1.AppArmorProfileTypeRuntimeDefault:
		return runtimes
	case p.Type == corev1.AppArmorProfileTypeLocalhost && p.LocalhostProfile != nil:
		return *p.LocalhostProfile
	}
	return noBound
}

// usersOf says whether the pod has a user namespace of its own. A node that knows none
// ignores that a pod asks for one.
func (c *cluster) usersOf(ctx context.Context, pod *corev1.Pod) string {
	if !ownUsers(pod) {
		return noBound
	}
	node, err := c.api.CoreV1().Nodes().Get(ctx, pod.Spec.NodeName, metav1.GetOptions{})
	if err != nil || pod.Spec.NodeName == "" || pod.Spec.RuntimeClassName != nil || !mapsUsers(node) {
		return unknownBound
	}
	return "its own"
}
