package sessionstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// Cluster keeps snapshots as Secrets of a namespace, for all hosts that may
// get, list, create, update and delete Secrets there. A session has one Secret,
// whose resourceVersion is the snapshot's version; a snapshot of more than 900
// KiB has further ones, which are made before that Secret names them, and
// deleted when it names others.
type Cluster struct {
	Client kubernetes.Interface
	// Namespace is that of the Secrets.
	Namespace string
}

var _ Store = (*Cluster)(nil)

const (
	// LabelSession is the label of all Secrets of a session: a hash of its id.
	LabelSession = "podagent.dev/session"
	// AnnotationSession is the id, on the Secret that a session has.
	AnnotationSession = "podagent.dev/session-id"

	// managedBy and manager are the well-known label, and its value.
	managedBy, manager = "app.kubernetes.io/managed-by", "podagent"
	// dataKey is where a Secret has its part of a snapshot, indexKey where the
	// session's has the list of the others.
	dataKey, indexKey = "data", "index"
)

// Load implements [Store].
func (c *Cluster) Load(ctx context.Context, id string) (Snapshot, error) {
	s, err := c.load(ctx, id)
	return s, wrap("load", id, err)
}

func (c *Cluster) load(ctx context.Context, id string) (Snapshot, error) {
	if err := check(id, nil); err != nil {
		return Snapshot{}, err
	}
	var last error
	for range loadAttempts {
		secret, err := c.head(ctx, id)
		if err != nil {
			return Snapshot{}, err
		}
		data, err := c.content(ctx, secret)
		if err == nil {
			return Snapshot{Data: data, Version: secret.ResourceVersion}, nil
		}
		if !apierrors.IsNotFound(err) {
			return Snapshot{}, err
		}
		last = fmt.Errorf("a part of it is missing: %v", err) // or was replaced just now
	}
	return Snapshot{}, last
}

// head returns the Secret that the session has, or fs.ErrNotExist.
func (c *Cluster) head(ctx context.Context, id string) (*corev1.Secret, error) {
	secret, err := c.secrets().Get(ctx, headName(id), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, fs.ErrNotExist
	case err != nil:
		return nil, err
	case secret.Annotations[AnnotationSession] != id:
		return nil, fmt.Errorf("the Secret %s/%s is that of session %q", c.Namespace, secret.Name, secret.Annotations[AnnotationSession])
	}
	return secret, nil
}

// Save implements [Store].
func (c *Cluster) Save(ctx context.Context, id string, data []byte, version string) (string, error) {
	if err := check(id, data); err != nil {
		return "", wrap("save", id, err)
	}
	next, err := c.save(ctx, id, data, version)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || version != "" && apierrors.IsNotFound(err) {
		err = ErrConflict
	}
	return next, wrap("save", id, err)
}

func (c *Cluster) save(ctx context.Context, id string, data []byte, version string) (string, error) {
	before, err := c.foresee(ctx, id, version)
	if err != nil {
		return "", err
	}
	head, parts := divide(id, data)
	if err := c.createAll(ctx, parts); err != nil {
		return "", errors.Join(err, c.deleteAll(context.WithoutCancel(ctx), namesOf(parts)))
	}
	var saved *corev1.Secret
	if version == "" {
		saved, err = c.secrets().Create(ctx, head, metav1.CreateOptions{})
	} else {
		head.ResourceVersion = version
		saved, err = c.secrets().Update(ctx, head, metav1.UpdateOptions{})
	}
	if err != nil {
		if refused(err) {
			_ = c.deleteAll(context.WithoutCancel(ctx), namesOf(parts)) // else they are strays
		}
		return "", err
	}
	if len(before)+len(parts) > 0 {
		c.tidy(ctx, id, before, namesOf(parts))
	}
	return saved.ResourceVersion, nil
}

// foresee returns the parts of the snapshot that is to be replaced. That it is
// another one is clear before those of the next are made.
func (c *Cluster) foresee(ctx context.Context, id, version string) (parts []string, err error) {
	secret, err := c.head(ctx, id)
	switch {
	case errors.Is(err, fs.ErrNotExist) && version == "":
		return nil, nil
	case errors.Is(err, fs.ErrNotExist), err == nil && secret.ResourceVersion != version:
		return nil, ErrConflict
	case err != nil:
		return nil, err
	}
	var in index
	if err := json.Unmarshal(secret.Data[indexKey], &in); err != nil {
		return nil, fmt.Errorf("the Secret %s/%s is no snapshot", c.Namespace, secret.Name)
	}
	return in.Parts, nil
}

// refused reports whether the server has answered that it did not do what it
// was asked, so that a snapshot is certain not to be saved.
func refused(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) ||
		apierrors.IsForbidden(err) || apierrors.IsInvalid(err)
}

// Delete implements [Store].
func (c *Cluster) Delete(ctx context.Context, id string) error {
	return wrap("delete", id, c.delete(ctx, id))
}

func (c *Cluster) delete(ctx context.Context, id string) error {
	if err := check(id, nil); err != nil {
		return err
	}
	if _, err := c.head(ctx, id); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// The parts only mean something by the Secret that names them.
	if err := c.secrets().Delete(ctx, headName(id), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	strays, err := c.parts(ctx, id)
	if err != nil {
		return err
	}
	return c.deleteAll(ctx, olderThan(strays, 0))
}

func (c *Cluster) secrets() typedcorev1.SecretInterface {
	return c.Client.CoreV1().Secrets(c.Namespace)
}
