package launcher

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/pkg/launcher/internal/lockfile"
	"github.com/podagent/podagent/pkg/podapi"
)

// keyStore keeps the versions of an identity.
type keyStore interface {
	// change replaces the versions by what edit makes of them, newest first. Of two changes
	// at once, one comes after the other.
	change(ctx context.Context, edit func([]keyVersion) ([]keyVersion, error)) error
}

// store returns where the identity is kept.
func (k *Kubernetes) store(c *cluster) (keyStore, error) {
	if k.Identity != nil {
		return nil, fmt.Errorf("the identity is neither in a file nor in a Secret: %w", errors.ErrUnsupported)
	}
	config, _, err := k.config()
	if err != nil {
		return nil, err
	}
	if secret := k.secretIn(config); secret != "" {
		namespace, name := secretPlace(secret, c.namespace)
		return &secretStore{c, namespace, name}, nil
	}
	path, err := identityPath(k.IdentityFile)
	return fileStore(path), err
}

// next returns a version after others.
func next(versions []keyVersion, lasts time.Duration) (keyVersion, error) {
	id, err := podapi.NewIdentity()
	v := keyVersion{Identity: id, number: 1, created: time.Now()}
	for _, other := range versions {
		v.number = max(v.number, other.number+1)
	}
	if lasts > 0 {
		v.expires = v.created.Add(lasts)
	}
	if len(versions) >= maxVersions {
		return v, fmt.Errorf("there are %d already: retire one", len(versions))
	}
	return v, err
}

// without returns versions without one.
func without(versions []keyVersion, v keyVersion) []keyVersion {
	return slices.DeleteFunc(slices.Clone(versions), func(other keyVersion) bool { return other.fingerprint() == v.fingerprint() })
}

// fileStore is the path of a file.
type fileStore string

func (f fileStore) change(ctx context.Context, edit func([]keyVersion) ([]keyVersion, error)) error {
	unlock, err := lockfile.Lock(ctx, string(f)+".lock")
	switch {
	case err == nil:
		defer unlock()
	case !errors.Is(err, errors.ErrUnsupported): // there, nobody waits for another
		return err
	}
	versions, err := readIdentity(string(f))
	if err != nil {
		return err
	}
	if versions, err = edit(versions); err != nil {
		return err
	}
	return writeVersions(string(f), versions, os.Rename)
}

// secretStore is a Secret. It is changed and never replaced: a permission to update can name
// it, and one to create cannot. So a user who may only create Secrets gets no key in.
type secretStore struct {
	*cluster
	in, name string
}

func (s *secretStore) change(ctx context.Context, edit func([]keyVersion) ([]keyVersion, error)) error {
	for {
		secret, err := s.api.CoreV1().Secrets(s.in).Get(ctx, s.name, metav1.GetOptions{})
		versions, err := parseIdentitySecret(secret, err, s.in, s.name)
		if err != nil {
			return err
		}
		if secret.Immutable != nil && *secret.Immutable {
			return s.immutable()
		}
		if versions, err = edit(versions); err != nil {
			return err
		}
		if secret.Data[identityKey], err = formatVersions(versions); err != nil {
			return err
		}
		_, err = s.api.CoreV1().Secrets(s.in).Update(ctx, secret, metav1.UpdateOptions{})
		if !apierrors.IsConflict(err) {
			return s.refused(err)
		}
	}
}

// immutable says how to replace a Secret that an earlier version made immutable.
func (s *secretStore) immutable() error {
	const replace = `kubectl get secret NAME -n IN -o go-template='{{index .data "identity.pem" | base64decode}}' >identity.pem && ` +
		`kubectl delete secret NAME -n IN && kubectl create secret generic NAME -n IN --from-file=identity.pem`
	return fmt.Errorf("the Secret %s/%s is immutable: replace it while no orchestrator starts, and keep the file until that has succeeded (%s)",
		s.in, s.name, strings.NewReplacer("NAME", s.name, "IN", s.in).Replace(replace))
}

// refused names the class of a refusal.
func (s *secretStore) refused(err error) error {
	if isRefusal(err) {
		return fmt.Errorf("%w: %w (deploy/identity-rotation-rbac.yaml has the permissions)", ErrForbidden, err)
	}
	return err
}
