package agentsandbox

import (
	"context"
	"errors"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/pager"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/internal/uses"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// The Sandboxes of claims have this label of the controller's.
const labelClaimUID = "agents.x-k8s.io/claim-uid"

// list describes the sandboxes, sorted by id. With an error it returns those that it found.
func (c *cluster) list(ctx context.Context) ([]launcher.Summary, error) {
	ours := labels.Set{podmeta.LabelManagedBy: podmeta.ManagedBy}.String()
	own, err := c.sandboxes().list(ctx, ours)
	made, claimsErr := c.claims().list(ctx, ours)
	if errors.Is(claimsErr, ErrNotInstalled) && err == nil { // it is, without its extensions
		claimsErr = nil
	}
	err = errors.Join(err, claimsErr)
	byName := map[string]*sandbox{}
	for _, s := range own {
		byName[s.Name] = s
	}
	var list []launcher.Summary
	belonging := c.sandboxesOfClaims(ctx, len(made) > 0)
	for _, m := range made {
		if of, _ := mainOf(m, byName[m.Name]); of != nil {
			list = append(list, summaryOf(&found{claim: m, sandbox: belonging[m.UID]}))
			delete(byName, m.Name)
		}
	}
	for _, s := range byName {
		list = append(list, summaryOf(&found{sandbox: s}))
	}
	slices.SortFunc(list, func(a, b launcher.Summary) int { return strings.Compare(a.ID, b.ID) })
	return list, forbidden(c.namespace, "*", err)
}

// findOne describes a sandbox, also one of a newer form, which is only shown.
func (c *cluster) findOne(ctx context.Context, id string) (launcher.Summary, error) {
	f, err := c.findOwn(ctx, id, false)
	switch {
	case err != nil && (f == nil || !errors.Is(err, launcher.ErrNewer)):
		return launcher.Summary{}, forbidden(c.namespace, podmeta.NameOf(id), err)
	case f == nil:
		return launcher.Summary{}, launcher.ErrNotFound
	}
	return summaryOf(f), nil
}

// sandboxesOfClaims returns the Sandboxes of claims by the claims' UIDs. Some may be others', who may
// have made them odd.
func (c *cluster) sandboxesOfClaims(ctx context.Context, any bool) map[types.UID]*sandbox {
	byUID := map[types.UID]*sandbox{}
	if !any {
		return byUID
	}
	list, _ := c.sandboxes().list(ctx, labelClaimUID)
	for _, s := range list {
		if owner := metav1.GetControllerOf(s); owner != nil {
			byUID[owner.UID] = s
		}
	}
	return byUID
}

func summaryOf(f *found) launcher.Summary {
	s := launcher.Summary{
		ID: f.main().GetAnnotations()[podmeta.AnnotationID], State: stateOf(f), CreatedAt: f.main().GetCreationTimestamp().UTC(),
		Labels: podmeta.LabelsIn(f.main().GetAnnotations()),
	}
	if f.claim != nil {
		s.Pool = f.claim.Spec.WarmPoolRef.Name
	}
	if ends := f.shutdownTime(); ends != nil {
		s.Expires = ends.UTC()
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
	var volume *corev1.PersistentVolumeClaimSpec
	for _, t := range f.sandbox.Spec.VolumeClaimTemplates {
		if t.Metadata.Name == workspaceVolume {
			volume = &t.Spec
		}
	}
	s.Resources = uses.Of(&f.sandbox.Spec.PodTemplate.Spec, workspaceVolume, volume)
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

// list returns the objects of a resource that a selector selects. With an error it returns those
// that it could read.
func (r store[T]) list(ctx context.Context, selector string) (list []*T, err error) {
	var failed []error
	pages := pager.New(pager.SimplePageFunc(func(options metav1.ListOptions) (runtime.Object, error) { return r.api.List(ctx, options) }))
	err = pages.EachListItem(ctx, metav1.ListOptions{LabelSelector: selector}, func(item runtime.Object) error {
		object, err := decode[T](item.(*unstructured.Unstructured), nil)
		if err == nil {
			list = append(list, object)
		}
		failed = append(failed, err)
		return nil
	})
	return list, errors.Join(apiError(err), errors.Join(failed...))
}
