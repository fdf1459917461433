package launchertest

import (
	"context"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
)

// awaitAccess waits until the API server heeds the Roles among objects, for who is
// bound to one by a RoleBinding among them. It hears of both a moment after they
// were created.
func (c *Cluster) awaitAccess(ctx context.Context, objects []*unstructured.Unstructured) error {
	roles := map[string]*rbacv1.Role{}
	for _, object := range objects {
		if object.GetKind() != "Role" {
			continue
		}
		role := &rbacv1.Role{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, role); err != nil {
			return err
		}
		roles[role.Name] = role
	}
	for _, object := range objects {
		if object.GetKind() != "RoleBinding" {
			continue
		}
		binding := &rbacv1.RoleBinding{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, binding); err != nil {
			return err
		}
		if role := roles[binding.RoleRef.Name]; role != nil {
			if err := c.awaitBound(ctx, role, binding); err != nil {
				return err
			}
		}
	}
	return nil
}

// awaitBound waits until the subjects of a binding have what the role lets them do:
// what its first rule says first, since all of it comes at once.
func (c *Cluster) awaitBound(ctx context.Context, role *rbacv1.Role, binding *rbacv1.RoleBinding) error {
	client, err := kubernetes.NewForConfig(c.Admin)
	if err != nil {
		return err
	}
	rule := role.Rules[0]
	resource, sub, _ := strings.Cut(rule.Resources[0], "/")
	for _, subject := range binding.Subjects {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:" + c.Namespace + ":" + subject.Name,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: c.Namespace, Verb: rule.Verbs[0],
				Group: rule.APIGroups[0], Resource: resource, Subresource: sub,
			},
		}}
		for {
			answer, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
			if err != nil {
				return err
			}
			if answer.Status.Allowed {
				break
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	return nil
}
