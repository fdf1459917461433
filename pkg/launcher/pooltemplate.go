package launcher

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// PoolTemplate returns the template of a pool's pods. spec has only Workdir, Egress and
// Pod, without Main and the times, which a launch sets.
func (k *Kubernetes) PoolTemplate(ctx context.Context, pool string, spec Spec) (*corev1.PodTemplateSpec, error) {
	spec = spec.withImage()
	if problem := spec.checkPool(); problem != nil {
		return nil, problem
	}
	sandbox := spec
	sandbox.ID = pool // a launch has an id, without which no workspace is kept
	if err := sandbox.validatePod(); err != nil {
		return nil, err
	}
	c, ctx, err := k.cluster(ctx)
	if err != nil {
		return nil, err
	}
	pod, err := c.podFor(ctx, &spec)
	if err != nil {
		return nil, err
	}
	if err := c.checkMade(pod); err != nil {
		return nil, err
	}
	awaitTaking(pod, pool)
	if spec.Pod.Workspace.Keep {
		mountWorkspace(pod, spec.Pod.Workspace.ephemeralVolume(pool))
		pod.Annotations[podmeta.AnnotationForm] = filesForm
	}
	return &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels, Annotations: pod.Annotations}, Spec: pod.Spec}, nil
}

// checkPool checks whether a spec can describe the pods of a pool, which have nothing of a
// sandbox yet.
func (s *Spec) checkPool() *SpecError {
	switch {
	case s.ID != "" || s.Env != nil || s.Protected != nil || s.Labels != nil || s.Git != nil || s.OnClose != "":
		return &SpecError{"ID, Env, Protected, Labels, Git or OnClose", "is set, which is for the launch that takes a pod of the pool"}
	case s.Take != Take{}:
		return &SpecError{"Take", "is set, which is for the launch that takes a pod of the pool"}
	case s.Pod.Lifetime != 0 || s.Pod.IdleTimeout != 0 || s.Pod.IdleIgnoresCommands || s.Pod.ActiveDeadline != 0:
		return &SpecError{"Pod.Lifetime, Pod.IdleTimeout or Pod.ActiveDeadline", "is set, which is for the launch that takes a pod of the pool"}
	case len(s.Pod.Main) > 0:
		return &SpecError{"Pod.Main", "is set, but nothing runs in a pod of a pool before it is taken"}
	}
	return nil
}

// awaitTaking makes a pod one that waits for its sandbox, for the template of a pool. A
// template's pods are always restarted. But an agent that ends by itself ends for good, where
// the cluster keeps restart policies of containers (Kubernetes 1.35): see endedForGood.
func awaitTaking(pod *corev1.Pod, pool string) {
	delete(pod.Labels, podmeta.LabelID)
	maps.Copy(pod.Labels, map[string]string{podmeta.LabelManagedBy: podmeta.ManagedByPool, podmeta.LabelPool: pool})
	for _, name := range []string{podmeta.AnnotationID, podmeta.AnnotationCreated, podmeta.AnnotationHeartbeat} {
		delete(pod.Annotations, name)
	}
	pod.Spec.ActiveDeadlineSeconds = nil
	agent := agentContainer(pod)
	agent.RestartPolicy = new(corev1.ContainerRestartPolicyOnFailure)
	agent.Env = append(agent.Env,
		corev1.EnvVar{Name: awaitVariable, Value: "true"},
		fromAnnotation("PODAGENT_ASSIGNMENT", podmeta.AnnotationAssignment),
		fromAnnotation(expiresVariable, podmeta.AnnotationExpires),
	)
}

// awaitVariable makes an agent await its assignment.
const awaitVariable = "PODAGENT_AWAIT_ASSIGNMENT"
