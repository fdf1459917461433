package sessionstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// Cluster keeps snapshots as Secrets of a namespace, for all hosts that may
// get, list, create, update and delete Secrets there. A session has one Secret,
// its head, whose resourceVersion is the snapshot's version. A snapshot of more
// than 900 KiB has further ones, its parts, which are made before the head names
// them, and deleted when it names others. Parts of a host that was killed on the
// way are deleted by a later Save or Delete of the session.
//
// The clocks of hosts and API server must not be five minutes apart.
type Cluster struct {
	// Client is one of an API server. The fake of client-go will not do: its
	// objects have no versions, and it panics where metadata alone is asked for.
	// A test of a host without a cluster can use a [Disk].
	Client kubernetes.Interface
	// Namespace is that of the Secrets.
	Namespace string
}

var _ Store = (*Cluster)(nil)

const (
	// LabelSession is the label of all Secrets of a session: a hash of its id.
	LabelSession = "podagent.dev/session"
	// AnnotationSession is the id, on the head of a session.
	AnnotationSession = "podagent.dev/session-id"
	// AnnotationReplaces is, on a part, the version of the snapshot whose
	// successor it is made for; there is none on those of a first snapshot.
	AnnotationReplaces = "podagent.dev/session-replaces"

	// managedBy and manager are the well-known label, and its value.
	managedBy, manager = "app.kubernetes.io/managed-by", "podagent"
	// dataKey is where a Secret has its part of a snapshot, indexKey where the
	// head has what it consists of.
	dataKey, indexKey = "data", "index"
)

// Load implements [Store].
func (c *Cluster) Load(ctx context.Context, id string) (Snapshot, error) {
	s, err := c.load(ctx, id)
	return s, wrap("load", id, explain(err))
}

func (c *Cluster) load(ctx context.Context, id string) (Snapshot, error) {
	if err := check(id, nil); err != nil {
		return Snapshot{}, err
	}
	missing := ""
	for range loadAttempts {
		h, err := c.head(ctx, id)
		if err != nil {
			return Snapshot{}, err
		}
		data, err := c.content(ctx, h)
		switch {
		case err == nil:
			return Snapshot{Data: data, Version: h.ResourceVersion}, nil
		case !apierrors.IsNotFound(err):
			return Snapshot{}, err
		case missing == h.ResourceVersion:
			return Snapshot{}, fmt.Errorf("a part of it is missing, so that it can only be deleted: %v", err)
		}
		missing = h.ResourceVersion // or it was replaced while it was read
	}
	return Snapshot{}, fmt.Errorf("others have saved it %d times while it was read", loadAttempts)
}

// Save implements [Store].
func (c *Cluster) Save(ctx context.Context, id string, data []byte, version string) (string, error) {
	next, err := c.save(ctx, id, data, version)
	return next, wrap("save", id, explain(err))
}

func (c *Cluster) save(ctx context.Context, id string, data []byte, version string) (string, error) {
	if err := check(id, data); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	before, err := c.foresee(ctx, id, version)
	if err != nil {
		return "", err
	}
	next, parts := divide(id, data, version, before.First)
	if err := c.createAll(ctx, parts); err != nil {
		c.discard(ctx, parts)
		return "", err
	}
	saved, err := c.swap(ctx, next)
	if err != nil {
		saved, err = c.conclude(ctx, id, next, parts, err)
	}
	if err != nil {
		return "", err
	}
	if len(before.Parts)+len(parts) > 0 {
		// What this leaves, the next time finds.
		_ = c.deleteAll(ctx, before.Parts)
		_ = c.tidy(ctx, id, saved.index)
	}
	return saved.ResourceVersion, nil
}

// foresee returns what the snapshot consists of that is to be replaced. That it
// is another one is clear before the parts of the next are made.
func (c *Cluster) foresee(ctx context.Context, id, version string) (index, error) {
	h, err := c.head(ctx, id)
	switch {
	case errors.Is(err, fs.ErrNotExist) && version == "":
		return index{}, nil
	case errors.Is(err, fs.ErrNotExist), err == nil && h.ResourceVersion != version:
		return index{}, ErrConflict
	case err != nil:
		return index{}, err
	}
	return h.index, nil
}

// swap puts a head in the place of the version that it names.
func (c *Cluster) swap(ctx context.Context, next *head) (*head, error) {
	if next.ResourceVersion == "" {
		saved, err := c.secrets().Create(ctx, next.Secret, metav1.CreateOptions{})
		return &head{saved, next.index}, err
	}
	saved, err := c.secrets().Update(ctx, next.Secret, metav1.UpdateOptions{})
	return &head{saved, next.index}, err
}

// conclude returns what has become of a save after the server has answered that
// it did not take the head. It may have taken it all the same: its client
// repeats a request whose answer was that the time was over. So the parts are
// deleted only if the head that there is now is another one.
func (c *Cluster) conclude(ctx context.Context, id string, next *head, parts []*corev1.Secret, err error) (*head, error) {
	if !isRefusal(err) {
		return nil, err // it may still be taken
	}
	calm, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	now, lookErr := c.head(calm, id)
	switch {
	case lookErr == nil && now.index.Save == next.index.Save:
		return now, nil
	case lookErr != nil && !errors.Is(lookErr, fs.ErrNotExist):
		return nil, err
	}
	c.discard(ctx, parts)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) && next.ResourceVersion != "" {
		err = ErrConflict
	}
	return nil, err
}

// isRefusal reports whether the server has answered that it did not do what it
// was asked.
func isRefusal(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) ||
		apierrors.IsForbidden(err) || apierrors.IsInvalid(err)
}

// Delete implements [Store].
func (c *Cluster) Delete(ctx context.Context, id string) error {
	return wrap("delete", id, explain(c.delete(ctx, id)))
}

func (c *Cluster) delete(ctx context.Context, id string) error {
	if err := check(id, nil); err != nil {
		return err
	}
	for range deleteAttempts {
		secret, err := c.get(ctx, id)
		if errors.Is(err, fs.ErrNotExist) {
			return c.tidy(ctx, id, index{})
		}
		if err != nil {
			return err
		}
		// This very head, so that it is its parts that nobody needs any more.
		err = c.secrets().Delete(ctx, secret.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &secret.UID, ResourceVersion: &secret.ResourceVersion},
		})
		if apierrors.IsConflict(err) {
			continue
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		in, _ := indexOf(secret) // what is no snapshot names nothing
		return errors.Join(c.deleteAll(ctx, in.Parts), c.tidy(ctx, id, in))
	}
	return fmt.Errorf("others have saved it %d times meanwhile", deleteAttempts)
}

// explain adds to an error of the API what can be done about it.
func explain(err error) error {
	// Quotas are Forbidden, too, and say of themselves which they are.
	if apierrors.IsForbidden(err) && !strings.Contains(err.Error(), "exceeded quota") {
		return fmt.Errorf("%w: deploy/session-rbac.yaml has the permissions that it takes", err)
	}
	return err
}

func (c *Cluster) secrets() typedcorev1.SecretInterface {
	return c.Client.CoreV1().Secrets(c.Namespace)
}
