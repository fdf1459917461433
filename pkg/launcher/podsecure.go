package launcher

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// tmpDir is where programs expect that they can write.
const tmpDir = "/tmp"

// secure makes the pod conform to its profile, and gives it the protections that it
// asks for.
func secure(pod *corev1.PodSpec, want *Pod) {
	pod.SecurityContext = &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}
	if want.RequireAppArmor {
		pod.SecurityContext.AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}
	}
	if want.Profile == Baseline {
		secureBaseline(pod)
	} else {
		secureRestricted(pod)
	}
	if want.UserNamespace == Require {
		pod.HostUsers = new(false)
	}
	if want.ReadOnlyRoot {
		readOnlyRoot(pod)
	}
}

// secureBaseline runs the pod as root. It cannot send packets in another's name.
func secureBaseline(pod *corev1.PodSpec) {
	pod.SecurityContext.RunAsUser, pod.SecurityContext.RunAsGroup = new(int64(0)), new(int64(0))
	pod.Containers[0].SecurityContext = &corev1.SecurityContext{
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"NET_RAW"}},
	}
}

// secureRestricted runs the pod as a user without rights. The ids are numbers, because
// an image's user may be a name or root. The home is set because that user has none in
// most images.
func secureRestricted(pod *corev1.PodSpec) {
	s := pod.SecurityContext
	s.RunAsNonRoot = new(true)
	s.RunAsUser, s.RunAsGroup, s.FSGroup = new(int64(sandboxUser)), new(int64(sandboxUser)), new(int64(sandboxUser))
	pod.Containers[0].SecurityContext = &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	mountHome(pod)
}

func mountHome(pod *corev1.PodSpec) {
	mountDir(pod, "home", homeDir)
	c := &pod.Containers[0]
	c.Env = append(c.Env, corev1.EnvVar{Name: "HOME", Value: homeDir})
}

// readOnlyRoot makes the image's files read-only. What programs expect to write, beside
// the workdir, are volumes then.
func readOnlyRoot(pod *corev1.PodSpec) {
	c := &pod.Containers[0]
	c.SecurityContext.ReadOnlyRootFilesystem = new(true)
	if !isMounted(c, homeDir) { // root's home is in the image
		mountHome(pod)
	}
	if !isMounted(c, tmpDir) { // it may be the workdir
		mountDir(pod, "tmp", tmpDir)
	}
}

func hasReadOnlyRoot(c *corev1.Container) bool {
	s := c.SecurityContext
	return s != nil && s.ReadOnlyRootFilesystem != nil && *s.ReadOnlyRootFilesystem
}

func isMounted(c *corev1.Container, dir string) bool {
	return slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == dir })
}

// mountDir mounts a new emptyDir in the agent's container.
func mountDir(pod *corev1.PodSpec, name, dir string) {
	pod.Volumes = append(pod.Volumes, emptyDir(name))
	mount(pod, corev1.VolumeMount{Name: name, MountPath: dir})
}

// checkWants checks how much the pod wants features that not every node has.
func (p *Pod) checkWants() *SpecError {
	if !slices.Contains([]Want{"", Prefer, Require}, p.UserNamespace) {
		return &SpecError{"Pod.UserNamespace", fmt.Sprintf("is %q: it is %s or %s", p.UserNamespace, Prefer, Require)}
	}
	return nil
}
