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

// createAll creates parts. "Already exists" answers a repeated request of our own,
// since nobody else uses these names.
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

// discard deletes the parts of a failed save, even if ctx has ended. Parts that it
// cannot delete become strays.
func (c *Cluster) discard(ctx context.Context, parts []*corev1.Secret) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	_ = c.deleteAll(ctx, namesOf(parts))
}

// tidy deletes the strays of a session: parts left by killed hosts. It leaves the
// parts of known, the snapshot that the caller has just saved or deleted.
//
// It reads the head after the list. So if the head does not name a listed part, it
// names the part no longer, or not yet.
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

// isStray reports whether no head will ever name a part. The current head, of this
// version, does not name it. Versions never come back, so a part that was made to
// replace an earlier version is a stray. So is a part of the session's first
// snapshot, whose name begins with first. A part that replaces this version, or
// belongs to another first snapshot, may be in the middle of a save. It is a stray
// when it is older than a save can last.
func isStray(part *metav1.PartialObjectMetadata, version, first string) bool {
	if replaces := part.Annotations[AnnotationReplaces]; replaces != "" && replaces != version {
		return true
	}
	return strings.HasPrefix(part.Name, first) || time.Since(part.CreationTimestamp.Time) >= strayAge
}

// list returns the metadata of all parts of the session.
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

// each calls do for all values, maxParallel at a time, until one call fails, and
// returns that error. It does not cancel the running calls: a canceled request may
// still be served later, and create a part after the caller has deleted it.
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
