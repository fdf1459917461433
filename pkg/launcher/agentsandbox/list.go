package agentsandbox

import (
	"context"
	"errors"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// list describes the sandboxes, sorted by id.
func (c *cluster) list(ctx context.Context) ([]launcher.Summary, error) {
	all, err := c.sandboxes().list(ctx)
	if err != nil {
		return nil, forbidden(c.namespace, "*", err)
	}
	made, err := c.claims().list(ctx)
	if err != nil && !errors.Is(err, ErrNotInstalled) {
		return nil, forbidden(c.namespace, "*", err)
	}
	var list []launcher.Summary
	byName := map[string]*sandbox{}
	for _, s := range all {
		byName[s.Name] = s
		if isOurs(s) {
			list = append(list, summaryOf(&found{sandbox: s}))
		}
	}
	for _, m := range made {
		if isOurs(m) {
			list = append(list, summaryOf(&found{claim: m, sandbox: byName[m.Status.Sandbox.Name]}))
		}
	}
	slices.SortFunc(list, func(a, b launcher.Summary) int { return strings.Compare(a.ID, b.ID) })
	return list, nil
}

func isOurs(object metav1.Object) bool {
	_, ok := object.GetAnnotations()[podmeta.AnnotationID]
	return ok && object.GetLabels()[podmeta.LabelManagedBy] == podmeta.ManagedBy
}

func summaryOf(f *found) launcher.Summary {
	s := launcher.Summary{
		ID: f.main().GetAnnotations()[podmeta.AnnotationID], State: stateOf(f), CreatedAt: f.main().GetCreationTimestamp().UTC(),
	}
	if f.sandbox == nil {
		return s
	}
	if !f.isPaused() {
		s.Pod = f.podName()
	}
	for _, container := range f.sandbox.Spec.PodTemplate.Spec.Containers {
		if container.Name == agentContainer {
			s.Workdir = container.WorkingDir
		}
	}
	return s
}

func stateOf(f *found) launcher.State {
	switch {
	case f.main().GetDeletionTimestamp() != nil:
		return launcher.Terminating
	case f.isPaused():
		return launcher.Paused
	case f.sandbox == nil:
		return launcher.Pending
	case condition(f.sandbox.Status.Conditions, "Ready").Status == metav1.ConditionTrue:
		return launcher.Running
	case condition(f.sandbox.Status.Conditions, "Finished").Status == metav1.ConditionTrue:
		return launcher.Ended
	}
	return launcher.Pending
}

// list returns all objects of a resource.
func (r store[T]) list(ctx context.Context) (list []*T, err error) {
	pages := pager.New(pager.SimplePageFunc(func(options metav1.ListOptions) (runtime.Object, error) { return r.api.List(ctx, options) }))
	err = pages.EachListItem(ctx, metav1.ListOptions{}, func(item runtime.Object) error {
		object, err := decode[T](item.(*unstructured.Unstructured), nil)
		list = append(list, object)
		return err
	})
	return list, apiError(err)
}
