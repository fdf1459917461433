package launcher

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// API returns the client of the API server, and the sandboxes' namespace.
func (k *Kubernetes) API(ctx context.Context) (api kubernetes.Interface, namespace string, err error) {
	c, _, err := k.cluster(ctx)
	if err != nil {
		return nil, "", err
	}
	return c.api, c.namespace, nil
}

// PoolTemplate returns the template of the pods of a pool. Of spec only Workdir and Pod may be
// set, and in Pod neither times, Main nor Workspace.Keep: a launch that takes a pod sets the rest.
func (k *Kubernetes) PoolTemplate(ctx context.Context, pool string, spec Spec) (*corev1.PodTemplateSpec, error) {
	spec = spec.withImage()
	if problem := spec.checkPool(); problem != nil {
		return nil, problem
	}
	if err := spec.validatePod(); err != nil {
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
	return &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels, Annotations: pod.Annotations}, Spec: pod.Spec}, nil
}
