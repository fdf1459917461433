package sessionstore

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

func namesOf(secrets []*corev1.Secret) []string {
	var names []string
	for _, s := range secrets {
		names = append(names, s.Name)
	}
	return names
}

// createAll makes parts. That one is there is the answer to a request that was
// repeated: nobody else has its name.
func (c *Cluster) createAll(ctx context.Context, parts []*corev1.Secret) error {
	return each(ctx, parts, func(ctx context.Context, _ int, part *corev1.Secret) error {
		_, err := c.secrets().Create(ctx, part, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
}

func (c *Cluster) deleteAll(ctx context.Context, names []string) error {
	return each(ctx, names, func(ctx context.Context, _ int, name string) error {
		err := c.secrets().Delete(ctx, name, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

// discard deletes the parts of a save that failed, also if that was because ctx
// has ended. What it cannot delete are strays.
func (c *Cluster) discard(ctx context.Context, parts []*corev1.Secret) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	_ = c.deleteAll(ctx, namesOf(parts))
}

// tidy deletes the strays of a session: parts of hosts that were killed. known is
// the snapshot that the caller has just saved or deleted, whose parts are his.
//
// The head is read after the list, so that what the list has and the head does
// not name is named no more, or not yet.
func (c *Cluster) tidy(ctx context.Context, id string, known index) error {
	all, err := c.list(ctx, id)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(part metav1.PartialObjectMetadata) bool { return slices.Contains(known.Parts, part.Name) })
	if len(all) == 0 {
		return nil
	}
	version, named := "", []string(nil)
	switch now, err := c.head(ctx, id); {
	case err == nil:
		version, named = now.ResourceVersion, now.index.Parts
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	var strays []string
	for _, part := range all {
		if !slices.Contains(named, part.Name) && isStray(&part, version, partPrefix(id, known.First)) {
			strays = append(strays, part.Name)
		}
	}
	return c.deleteAll(ctx, strays)
}

// isStray reports whether a part that the head of this version does not name
// will never be named. Versions do not come again: what was made to replace an
// earlier one never will be, nor what belonged to the session's first snapshot,
// whose parts have names that begin with first. What is to follow this version
// may be on its way, and so may be what belongs to another first snapshot: for
// no longer than a save may take.
func isStray(part *metav1.PartialObjectMetadata, version, first string) bool {
	if replaces := part.Annotations[AnnotationReplaces]; replaces != "" && replaces != version {
		return true
	}
	return strings.HasPrefix(part.Name, first) || time.Since(part.CreationTimestamp.Time) >= strayAge
}

// list returns all parts of the session, without their content.
func (c *Cluster) list(ctx context.Context, id string) ([]metav1.PartialObjectMetadata, error) {
	raw, err := c.Client.CoreV1().RESTClient().Get().Namespace(c.Namespace).Resource("secrets").
		VersionedParams(&metav1.ListOptions{LabelSelector: LabelSession + "=" + nameOf(id)}, scheme.ParameterCodec).
		SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").
		DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	var list metav1.PartialObjectMetadataList
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(s metav1.PartialObjectMetadata) bool { return s.Name == headName(id) }), nil
}

// each calls do for all of them, a few at a time, until one fails. It returns
// that error. What is under way then ends as it does: a request that was given up
// may be served later, and make what its caller has deleted by then.
func each[T any](ctx context.Context, all []T, do func(ctx context.Context, i int, v T) error) error {
	going, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	room := make(chan struct{}, maxParallel)
	var group sync.WaitGroup
	for i, v := range all {
		room <- struct{}{}
		group.Go(func() {
			defer func() { <-room }()
			if going.Err() != nil {
				return
			}
			if err := do(ctx, i, v); err != nil {
				stop(err)
			}
		})
	}
	group.Wait()
	return context.Cause(going)
}
