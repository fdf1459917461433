package launchertest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// accessPatience is how long the API server may take to apply a Role.
const accessPatience = 2 * time.Minute

// awaitAccess waits until the API server applies the Roles among objects to the
// subjects of the RoleBindings among them. This takes a moment after they were
// created.
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

// awaitBound waits until the subjects of a binding have the permissions of the role.
// It checks only the first one, since all of them start at the same time.
func (c *Cluster) awaitBound(ctx context.Context, role *rbacv1.Role, binding *rbacv1.RoleBinding) error {
	ctx, cancel := context.WithTimeoutCause(ctx, accessPatience, fmt.Errorf("the Role %s does not apply after %v", role.Name, accessPatience))
	defer cancel()
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
				Name: strings.Join(rule.ResourceNames[:min(1, len(rule.ResourceNames))], ""),
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
				return context.Cause(ctx)
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	return nil
}

// LimitedAccount creates a service account with only these permissions in the
// namespace. It returns its configuration once the API server applies them.
func (c *Cluster) LimitedAccount(t testing.TB, name string, rules ...rbacv1.PolicyRule) *rest.Config {
	t.Helper()
	api, meta := c.API(t), metav1.ObjectMeta{Name: name}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: rules}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: c.Namespace}},
	}
	ctx := t.Context()
	_, err := api.CoreV1().ServiceAccounts(c.Namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	if err == nil {
		_, err = api.RbacV1().Roles(c.Namespace).Create(ctx, role, metav1.CreateOptions{})
	}
	if err == nil {
		_, err = api.RbacV1().RoleBindings(c.Namespace).Create(ctx, binding, metav1.CreateOptions{})
	}
	if err == nil {
		err = c.awaitBound(ctx, role, binding)
	}
	var config *rest.Config
	if err == nil {
		config, err = c.Account(ctx, name)
	}
	if err != nil {
		t.Fatal(err)
	}
	return config
}
