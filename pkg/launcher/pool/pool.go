// Package pool keeps pods ready for sandboxes that are wanted at once.
//
// A pool is a Deployment whose pods run the agent and belong to no sandbox. A Launch whose
// [launcher.Take] names it takes one out, and the cluster makes the next. Nothing of ours
// runs for a pool: kubectl and autoscalers may scale it, and a changed description replaces
// the pods that wait, and no others.
//
// It needs the permissions of deploy/pools-rbac.yaml; launches that take pods need no more
// than others.
package pool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	typed "k8s.io/client-go/kubernetes/typed/apps/v1"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// Errors of pools.
var (
	ErrNotFound = errors.New("no such pool")
	ErrNotOurs  = errors.New("a Deployment of this name is no pool")
)

// Pool describes a pool.
type Pool struct {
	Name      string
	Size      int // how many pods are to wait
	Ready     int // how many wait
	Image     string
	CreatedAt time.Time
}

// Create makes a pool, or changes the one of this name, its size included. Of spec it uses
// Workdir, Egress and Pod: see [launcher.Kubernetes.PoolTemplate]. It does not wait for the pods.
func Create(ctx context.Context, k *launcher.Kubernetes, name string, size int, spec launcher.Spec) error {
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return &launcher.SpecError{Field: "Pool.Name", Msg: fmt.Sprintf("is %q: %s", name, problems[0])}
	}
	if err := checkSize(size); err != nil {
		return err
	}
	template, err := k.PoolTemplate(ctx, name, spec)
	if err != nil {
		return err
	}
	deployments, err := deploymentsOf(ctx, k)
	if err != nil {
		return err
	}
	_, err = deployments.Create(ctx, deployment(name, size, template), metav1.CreateOptions{})
	if isRestartPolicy(err) {
		withoutRestartPolicies(template)
		_, err = deployments.Create(ctx, deployment(name, size, template), metav1.CreateOptions{})
	}
	if !apierrors.IsAlreadyExists(err) {
		return wrap("creating", name, err)
	}
	return wrap("changing", name, change(ctx, deployments, name, func(d *appsv1.Deployment) {
		d.Spec.Replicas, d.Spec.Template = new(int32(size)), *template
	}))
}

// isRestartPolicy reports whether the API server refuses the restart policy of a container,
// as those of Kubernetes 1.28 to 1.33 do. Later ones keep or drop it.
func isRestartPolicy(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && apierrors.IsInvalid(err) && status.ErrStatus.Details != nil &&
		slices.ContainsFunc(status.ErrStatus.Details.Causes, func(c metav1.StatusCause) bool {
			return strings.HasSuffix(c.Field, "].restartPolicy")
		})
}

func withoutRestartPolicies(template *corev1.PodTemplateSpec) {
	for i := range template.Spec.Containers {
		template.Spec.Containers[i].RestartPolicy = nil
	}
}

// deployment returns the Deployment of a new pool. When its description changes, it makes no
// more pods than before, but replaces a quarter of them at a time.
func deployment(name string, size int, template *corev1.PodTemplateSpec) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labelsOf(name)},
		Spec: appsv1.DeploymentSpec{
			Replicas:             new(int32(size)),
			Selector:             &metav1.LabelSelector{MatchLabels: labelsOf(name)},
			Template:             *template,
			RevisionHistoryLimit: new(int32(1)), // a pool is changed by Create, and not rolled back
			Strategy: appsv1.DeploymentStrategy{RollingUpdate: &appsv1.RollingUpdateDeployment{
				MaxSurge: new(intstr.FromInt32(0)), MaxUnavailable: new(intstr.FromString("25%")),
			}},
		},
	}
}

// labelsOf are the labels of a pool's Deployment and of the pods that wait in it.
func labelsOf(name string) map[string]string {
	return map[string]string{podmeta.LabelManagedBy: podmeta.ManagedByPool, podmeta.LabelPool: name}
}

// List returns the pools of the launcher's namespace, sorted by name.
func List(ctx context.Context, k *launcher.Kubernetes) ([]Pool, error) {
	deployments, err := deploymentsOf(ctx, k)
	if err != nil {
		return nil, err
	}
	list, err := deployments.List(ctx, metav1.ListOptions{LabelSelector: labels.Set{podmeta.LabelManagedBy: podmeta.ManagedByPool}.String()})
	if err != nil {
		return nil, fmt.Errorf("listing pools: %w", classed(err))
	}
	var pools []Pool
	for i := range list.Items {
		pools = append(pools, describe(&list.Items[i]))
	}
	slices.SortFunc(pools, func(a, b Pool) int { return cmp.Compare(a.Name, b.Name) })
	return pools, nil
}

func describe(d *appsv1.Deployment) Pool {
	p := Pool{Name: d.Name, Ready: int(d.Status.ReadyReplicas), CreatedAt: d.CreationTimestamp.UTC()}
	if d.Spec.Replicas != nil {
		p.Size = int(*d.Spec.Replicas)
	}
	if containers := d.Spec.Template.Spec.Containers; len(containers) > 0 {
		p.Image = containers[0].Image
	}
	return p
}

// Scale changes how many pods wait. Those that are too many end. A pod that a launch takes
// meanwhile may be among them, and the launch then takes another. But when the cluster ends
// more than some 30 at once, it may come to one only after the launch, whose sandbox is then gone
// ([launcher.ErrGone]).
func Scale(ctx context.Context, k *launcher.Kubernetes, name string, size int) error {
	if err := checkSize(size); err != nil {
		return err
	}
	deployments, err := deploymentsOf(ctx, k)
	if err != nil {
		return err
	}
	return wrap("scaling", name, change(ctx, deployments, name, func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(size)) }))
}

// Delete removes a pool with the pods that wait in it. Sandboxes keep theirs. If there is none,
// the error is [ErrNotFound].
func Delete(ctx context.Context, k *launcher.Kubernetes, name string) error {
	deployments, err := deploymentsOf(ctx, k)
	if err != nil {
		return err
	}
	d, err := find(ctx, deployments, name)
	if err == nil {
		err = deployments.Delete(ctx, name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &d.UID}, PropagationPolicy: new(metav1.DeletePropagationBackground),
		})
	}
	return wrap("removing", name, err)
}

// change changes a pool's Deployment, again if somebody else has changed it meanwhile.
func change(ctx context.Context, deployments typed.DeploymentInterface, name string, edit func(*appsv1.Deployment)) error {
	for {
		d, err := find(ctx, deployments, name)
		if err != nil {
			return err
		}
		edit(d)
		_, err = deployments.Update(ctx, d, metav1.UpdateOptions{})
		if !apierrors.IsConflict(err) || ctx.Err() != nil {
			return err
		}
	}
}

// find returns the Deployment of a pool.
func find(ctx context.Context, deployments typed.DeploymentInterface, name string) (*appsv1.Deployment, error) {
	d, err := deployments.Get(ctx, name, metav1.GetOptions{})
	if err == nil && d.Labels[podmeta.LabelManagedBy] != podmeta.ManagedByPool {
		return nil, ErrNotOurs
	}
	return d, err
}

func deploymentsOf(ctx context.Context, k *launcher.Kubernetes) (typed.DeploymentInterface, error) {
	api, namespace, err := apiOf(ctx, k)
	if err != nil {
		return nil, err
	}
	return api.AppsV1().Deployments(namespace), nil
}

// apiOf returns the client of the API server, and the namespace.
func apiOf(ctx context.Context, k *launcher.Kubernetes) (kubernetes.Interface, string, error) {
	config, namespace, err := k.API(ctx)
	if err != nil {
		return nil, "", err
	}
	api, err := kubernetes.NewForConfig(config)
	return api, namespace, err
}

func checkSize(size int) error {
	if size < 0 || size > math.MaxInt32 {
		return &launcher.SpecError{Field: "Pool.Size", Msg: fmt.Sprintf("is %d: it is between 0 and %d", size, math.MaxInt32)}
	}
	return nil
}

// classed gives an error of the API its class.
func classed(err error) error {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	switch {
	case !ok || status.ErrStatus.Details == nil:
		return err
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w (deploy/pools-rbac.yaml has what pools need): %w", launcher.ErrForbidden, err)
	case apierrors.IsNotFound(err) && status.ErrStatus.Details.Kind == "namespaces":
		return fmt.Errorf("%w: %w", launcher.ErrNoNamespace, err)
	case apierrors.IsNotFound(err):
		return ErrNotFound
	}
	return err
}

// wrap says what was being done to which pool when err came.
func wrap(doing, name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s pool %q: %w", doing, name, classed(err))
}
