package launcher

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// installName is the container that installs podagent for an image without it.
// installDir is where the pod's containers have podagent, in the volume of this
// name.
const (
	installName = "install"
	installDir  = "/.podagent/bin"
)

// program returns the command that runs podagent in the pod.
func (p *Pod) program() string {
	if p.AgentImage != "" {
		return installDir + "/" + agentProgram
	}
	return agentProgram
}

// programOf is program for an existing pod.
func programOf(pod *corev1.Pod) string {
	for _, c := range pod.Spec.Containers {
		if c.Name == containerName && len(c.Command) > 0 {
			return c.Command[0]
		}
	}
	return agentProgram
}

// inject makes an init container install podagent from the image, in a volume that
// the agent's container can only read.
func inject(pod *corev1.PodSpec, image string) {
	if image == "" {
		return
	}
	c := &pod.Containers[0]
	pod.Volumes = append(pod.Volumes, emptyDir(agentProgram))
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: agentProgram, MountPath: installDir, ReadOnly: true})
	pod.InitContainers = append(pod.InitContainers, corev1.Container{
		Name:            installName,
		Image:           image,
		Command:         []string{agentProgram, "install", installDir},
		WorkingDir:      "/",
		Resources:       c.Resources,
		SecurityContext: c.SecurityContext,
		VolumeMounts:    []corev1.VolumeMount{{Name: agentProgram, MountPath: installDir}},
		// This makes the pod say why it failed.
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	})
}

// installMount returns the mount of podagent in a container; none if the image has
// podagent.
func installMount(c *corev1.Container) []corev1.VolumeMount {
	i := slices.IndexFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == installDir })
	if i < 0 {
		return nil
	}
	return c.VolumeMounts[i : i+1]
}
