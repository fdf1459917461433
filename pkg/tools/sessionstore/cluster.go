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

// Cluster keeps snapshots as Secrets in a namespace. Hosts need the permissions to
// get, list, create, update and delete Secrets there. Each session has one Secret,
// its head. The head's resourceVersion is the snapshot's version. A snapshot of
// more than 900 KiB has further Secrets, its parts. They are created before the
// head names them, and deleted when it names others. If a host is killed in
// between, a later Save or Delete of the session deletes its leftover parts.
//
// The clocks of the hosts and the API server must differ by less than five minutes.
type Cluster struct {
	// Client is the client of a real API server. The fake of client-go does not
	// work: its objects have no versions, and it panics on requests for metadata
	// only. To test a host without a cluster, use a [Disk].
	Client kubernetes.Interface
	// Namespace is the namespace of the Secrets.
	Namespace string
}

var _ Store = (*Cluster)(nil)

const (
	// LabelSession is the label of all Secrets of a session: a hash of its id.
	LabelSession = "podagent.dev/session"
	// AnnotationSession is the id, on the head of a session.
	AnnotationSession = "podagent.dev/session-id"
	// AnnotationReplaces, on a part, is the version that the part's snapshot
	// replaces. Parts of a session's first snapshot do not have it.
	AnnotationReplaces = "podagent.dev/session-replaces"

	// managedBy and manager are the well-known label and its value.
	managedBy, manager = "app.kubernetes.io/managed-by", "podagent"
	// dataKey is the key of the data in a Secret, indexKey the key of the index in
	// the head.
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
			return Snapshot{}, fmt.Errorf("a part of it is missing, so it can only be deleted: %v", err)
		}
		missing = h.ResourceVersion // maybe it was replaced meanwhile: try again
	}
	return Snapshot{}, fmt.Errorf("other hosts saved it %d times while it was read", loadAttempts)
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
	before, err := c.current(ctx, id, version)
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
		// The next save deletes what this leaves behind.
		_ = c.deleteAll(ctx, before.Parts)
		_ = c.tidy(ctx, id, saved.index)
	}
	return saved.ResourceVersion, nil
}

// current returns the index of the snapshot to replace. It finds a conflict before
// any part is created.
func (c *Cluster) current(ctx context.Context, id, version string) (index, error) {
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

// swap replaces the version named in the new head with the new head.
func (c *Cluster) swap(ctx context.Context, next *head) (*head, error) {
	if next.ResourceVersion == "" {
		saved, err := c.secrets().Create(ctx, next.Secret, metav1.CreateOptions{})
		return &head{saved, next.index}, err
	}
	saved, err := c.secrets().Update(ctx, next.Secret, metav1.UpdateOptions{})
	return &head{saved, next.index}, err
}

// conclude finds out the result of a save whose swap failed. The server may have
// accepted the head in spite of a refusal: the client repeats a request that timed
// out, and then gets the answer to the second one. So conclude deletes the parts
// only if the current head is another one.
func (c *Cluster) conclude(ctx context.Context, id string, next *head, parts []*corev1.Secret, err error) (*head, error) {
	if !isRefusal(err) {
		return nil, err // the server may still accept the head
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

// isRefusal reports whether err is the server's answer that it refused a request.
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
		// Delete exactly this head: only then its parts are no longer needed.
		err = c.secrets().Delete(ctx, secret.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &secret.UID, ResourceVersion: &secret.ResourceVersion},
		})
		if apierrors.IsConflict(err) {
			continue
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		in, _ := indexOf(secret) // without a valid index there are no parts
		return errors.Join(c.deleteAll(ctx, in.Parts), c.tidy(ctx, id, in))
	}
	return fmt.Errorf("other hosts saved it %d times meanwhile", deleteAttempts)
}

// explain adds a remedy to an error of the API.
func explain(err error) error {
	// An exceeded quota is Forbidden, too, and its error says so.
	if apierrors.IsForbidden(err) && !strings.Contains(err.Error(), "exceeded quota") {
		return fmt.Errorf("%w: deploy/session-rbac.yaml grants the needed permissions", err)
	}
	return err
}

func (c *Cluster) secrets() typedcorev1.SecretInterface {
	return c.Client.CoreV1().Secrets(c.Namespace)
}
