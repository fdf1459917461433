package agentsandbox

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/podagent/podagent/pkg/launcher"
)

// cluster is a Launcher with its fields resolved.
type cluster struct {
	owner     *Launcher
	k         *launcher.Kubernetes
	api       kubernetes.Interface
	dynamic   dynamic.Interface
	namespace string
}

// cluster resolves the fields, only once.
func (l *Launcher) cluster(ctx context.Context) (*cluster, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.resolved != nil {
		return l.resolved, nil
	}
	k := l.Cluster
	if k == nil {
		k = &launcher.Kubernetes{}
	}
	config, namespace, err := k.API(ctx)
	if err != nil {
		return nil, err
	}
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	d, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	l.resolved = &cluster{l, k, api, d, namespace}
	return l.resolved, nil
}

func (c *cluster) sandboxes() store[sandbox] { return storeOf[sandbox](c, sandboxes, "Sandbox") }
func (c *cluster) claims() store[claim]      { return storeOf[claim](c, claims, "SandboxClaim") }
func (c *cluster) pools() store[warmPool] {
	return storeOf[warmPool](c, warmPools, "SandboxWarmPool")
}

func (c *cluster) templates() store[template] {
	return storeOf[template](c, templates, "SandboxTemplate")
}

// podError returns an error about a sandbox's pod.
func podError(namespace, name string, class error, reason, message string) *launcher.PodError {
	return &launcher.PodError{Pod: namespace + "/" + name, Class: class, Reason: reason, Message: message}
}

// preconditions returns metadata by which a patch changes this object and no other of its name;
// with a version, only if the object has not changed.
func preconditions(object metav1.Object, version string) map[string]any {
	meta := map[string]any{"uid": object.GetUID()}
	if version != "" {
		meta["resourceVersion"] = version
	}
	return meta
}

// patch changes fields of an object by a merge patch. The error is ErrGone if the object is not
// there any more.
func (c *cluster) patch(ctx context.Context, resource schema.GroupVersionResource, name string, changes map[string]any) (*unstructured.Unstructured, error) {
	data, err := json.Marshal(changes)
	if err != nil {
		return nil, err
	}
	now, err := c.dynamic.Resource(resource).Namespace(c.namespace).Patch(ctx, name, types.MergePatchType, data, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) && !isUnknown(err) || isOtherUID(err) {
		return nil, podError(c.namespace, name, launcher.ErrGone, "", "its object was deleted or replaced")
	}
	return now, forbidden(c.namespace, name, apiError(err))
}

// isOtherUID reports whether a patch was refused because another object has the name by now.
func isOtherUID(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && status.ErrStatus.Details != nil && slices.ContainsFunc(status.ErrStatus.Details.Causes, func(c metav1.StatusCause) bool {
		return c.Field == "metadata.uid"
	})
}
