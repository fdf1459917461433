package agentsandbox

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// The resources of agent-sandbox that this uses, in the version that it knows.
var (
	sandboxGroup = schema.GroupVersion{Group: "agents.x-k8s.io", Version: "v1beta1"}
	extensions   = schema.GroupVersion{Group: "extensions.agents.x-k8s.io", Version: "v1beta1"}

	sandboxes = sandboxGroup.WithResource("sandboxes")
	claims    = extensions.WithResource("sandboxclaims")
	templates = extensions.WithResource("sandboxtemplates")
	warmPools = extensions.WithResource("sandboxwarmpools")
)

// Labels and annotations of the controller's.
const (
	labelLaunchType   = "agents.x-k8s.io/launch-type" // "warm" or "cold"
	annotationPodName = "agents.x-k8s.io/pod-name"    // of a Sandbox whose pod has another name
)

// The fields of the resources that this uses. Their meaning is described in agent-sandbox,
// api/v1beta1 and extensions/api/v1beta1.
type (
	sandbox struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              sandboxSpec   `json:"spec"`
		Status            sandboxStatus `json:"status,omitzero"`
	}
	sandboxSpec struct {
		blueprint      `json:",inline"`
		ShutdownTime   *metav1.Time `json:"shutdownTime,omitempty"`
		ShutdownPolicy string       `json:"shutdownPolicy,omitempty"`
		OperatingMode  string       `json:"operatingMode,omitempty"`
	}
	sandboxStatus struct {
		Conditions []metav1.Condition `json:"conditions,omitempty"`
	}
	blueprint struct {
		PodTemplate          podTemplate     `json:"podTemplate"`
		VolumeClaimTemplates []claimTemplate `json:"volumeClaimTemplates,omitempty"`
	}
	podTemplate struct {
		Metadata podMetadata    `json:"metadata,omitzero"`
		Spec     corev1.PodSpec `json:"spec"`
	}
	podMetadata struct {
		Labels      map[string]string `json:"labels,omitempty"`
		Annotations map[string]string `json:"annotations,omitempty"`
	}
	claimTemplate struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Spec corev1.PersistentVolumeClaimSpec `json:"spec"`
	}

	claim struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              claimSpec   `json:"spec"`
		Status            claimStatus `json:"status,omitzero"`
	}
	claimSpec struct {
		WarmPoolRef nameRef        `json:"warmPoolRef"`
		Lifecycle   claimLifecycle `json:"lifecycle,omitzero"`
	}
	claimLifecycle struct {
		ShutdownTime   *metav1.Time `json:"shutdownTime,omitempty"`
		ShutdownPolicy string       `json:"shutdownPolicy,omitempty"`
	}
	claimStatus struct {
		Conditions []metav1.Condition `json:"conditions,omitempty"`
		Sandbox    nameRef            `json:"sandbox,omitzero"`
	}
	nameRef struct {
		Name string `json:"name,omitempty"`
	}

	template struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              templateSpec `json:"spec"`
	}
	templateSpec struct {
		blueprint               `json:",inline"`
		NetworkPolicyManagement string         `json:"networkPolicyManagement"`
		NetworkPolicy           *networkPolicy `json:"networkPolicy,omitempty"`
	}
	networkPolicy struct {
		Ingress []networkingv1.NetworkPolicyIngressRule `json:"ingress"`
		Egress  []networkingv1.NetworkPolicyEgressRule  `json:"egress"`
	}

	warmPool struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              warmPoolSpec   `json:"spec"`
		Status            warmPoolStatus `json:"status,omitzero"`
	}
	warmPoolSpec struct {
		Replicas    int32   `json:"replicas"`
		TemplateRef nameRef `json:"sandboxTemplateRef"`
	}
	warmPoolStatus struct {
		ReadyReplicas int32 `json:"readyReplicas"`
	}
)

// The values of operatingMode and shutdownPolicy that this uses.
const (
	modeRunning   = "Running"
	modeSuspended = "Suspended"
	policyDelete  = "Delete"
)

// store is a resource in the namespace of the sandboxes.
type store[T any] struct {
	api  dynamic.ResourceInterface
	kind schema.GroupVersionKind
}

func storeOf[T any](c *cluster, gvr schema.GroupVersionResource, kind string) store[T] {
	return store[T]{c.dynamic.Resource(gvr).Namespace(c.namespace), gvr.GroupVersion().WithKind(kind)}
}

func (r store[T]) get(ctx context.Context, name string) (*T, error) {
	return decode[T](r.api.Get(ctx, name, metav1.GetOptions{}))
}

func (r store[T]) create(ctx context.Context, object *T) (*T, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: fields}
	u.SetGroupVersionKind(r.kind)
	unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
	return decode[T](r.api.Create(ctx, u, metav1.CreateOptions{}))
}

func decode[T any](u *unstructured.Unstructured, err error) (*T, error) {
	if err != nil {
		return nil, apiError(err)
	}
	object := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, object); err != nil {
		return nil, fmt.Errorf("%s %s/%s is not as this version of podagent knows it: %w", u.GetKind(), u.GetNamespace(), u.GetName(), err)
	}
	return object, nil
}

// apiError says that agent-sandbox is not installed if the API server knows no such resource.
func apiError(err error) error {
	if isUnknown(err) {
		return fmt.Errorf("%w: %w", ErrNotInstalled, err)
	}
	return err
}

// isUnknown reports whether the API server knows no resource of this kind, or not in this
// version. Of an object that is not there it says the name.
func isUnknown(err error) bool {
	status, ok := err.(apierrors.APIStatus)
	return ok && apierrors.IsNotFound(err) && (status.Status().Details == nil || status.Status().Details.Name == "")
}

// condition returns a condition of a type; a zero one if there is none.
func condition(list []metav1.Condition, kind string) metav1.Condition {
	i := slices.IndexFunc(list, func(c metav1.Condition) bool { return c.Type == kind })
	if i < 0 {
		return metav1.Condition{}
	}
	return list[i]
}
