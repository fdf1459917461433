package launcher

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/podagent/podagent/pkg/launcher/podmeta"
	"github.com/podagent/podagent/pkg/podapi"
)

// identityKey is the key of the identity in its Secret: it has all versions, as a file does.
const identityKey = "identity.pem"

// IdentitySecret returns the identity in a Secret, and creates it on first use. If several
// orchestrators do this at once, all use the first.
func IdentitySecret(ctx context.Context, client kubernetes.Interface, namespace, name string) (podapi.Identity, error) {
	r, err := identitySecret(ctx, client, namespace, name)
	if err != nil {
		return podapi.Identity{}, err
	}
	return r[0].Identity, nil
}

func identitySecret(ctx context.Context, client kubernetes.Interface, namespace, name string) (ring, error) {
	versions, err := readIdentitySecret(ctx, client, namespace, name)
	if apierrors.IsNotFound(err) {
		secret, failed := newIdentitySecret(name)
		if failed != nil {
			return nil, failed
		}
		secret, err = client.CoreV1().Secrets(namespace).Create(ctx, secret, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			versions, err = readIdentitySecret(ctx, client, namespace, name)
		} else {
			versions, err = parseIdentitySecret(secret, err, namespace, name)
		}
	}
	if err != nil {
		return nil, err
	}
	return newRing(versions)
}

// sharedIdentity is identitySecret, but makes no identity if the namespace of the sandboxes
// has one: the sandboxes would not answer another.
func sharedIdentity(ctx context.Context, client kubernetes.Interface, secret, sandboxes string) (ring, error) {
	namespace, name := secretPlace(secret, sandboxes)
	versions, err := readIdentitySecret(ctx, client, namespace, name)
	switch {
	case err == nil:
		return newRing(versions)
	case !apierrors.IsNotFound(err):
		return nil, err
	}
	if err := checkLeft(ctx, client, namespace, name, sandboxes); err != nil {
		return nil, err
	}
	return identitySecret(ctx, client, namespace, name)
}

// checkLeft returns an error if the identity that is missing in a Secret is in the
// namespace of the sandboxes, where earlier versions kept it.
func checkLeft(ctx context.Context, client kubernetes.Interface, namespace, name, sandboxes string) error {
	if namespace == sandboxes {
		return nil
	}
	left, err := client.CoreV1().Secrets(sandboxes).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), isRefusal(err), err == nil && left.Data[identityKey] == nil:
		return nil
	case err != nil:
		return fmt.Errorf("cannot look for the identity in Secret %s/%s: %w", sandboxes, name, err)
	}
	return fmt.Errorf("the identity is not in Secret %[1]s/%[2]s, but in %[3]s/%[2]s, where anyone who may create pods can read it: "+
		`copy it ("kubectl get secret %[2]s -n %[3]s -o go-template='{{index .data %[4]q | base64decode}}' | `+
		`kubectl create secret generic %[2]s -n %[1]s --from-file=%[4]s=/dev/stdin"), `+
		"or delete it, and its sandboxes are lost", namespace, name, sandboxes, identityKey)
}

// readIdentitySecret returns the versions in an existing Secret.
func readIdentitySecret(ctx context.Context, client kubernetes.Interface, namespace, name string) ([]keyVersion, error) {
	secret, err := client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	return parseIdentitySecret(secret, err, namespace, name)
}

// parseIdentitySecret returns the versions in the result of an API call.
func parseIdentitySecret(secret *corev1.Secret, err error, namespace, name string) ([]keyVersion, error) {
	if isRefusal(err) {
		err = fmt.Errorf("%w: %w", ErrForbidden, err)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot get the identity from Secret %s/%s: %w", namespace, name, err)
	}
	versions, err := parseVersions(secret.Data[identityKey])
	if err != nil {
		return nil, fmt.Errorf("key %s of Secret %s/%s: %w", identityKey, namespace, name, err)
	}
	for i := range versions {
		if versions[i].created.IsZero() {
			versions[i].created = secret.CreationTimestamp.Time
		}
	}
	return versions, nil
}

func newIdentitySecret(name string) (*corev1.Secret, error) {
	id, err := podapi.NewIdentity()
	if err != nil {
		return nil, err
	}
	data, err := formatVersions([]keyVersion{{Identity: id, number: 1, created: time.Now()}})
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{podmeta.LabelManagedBy: podmeta.ManagedBy}},
		Data:       map[string][]byte{identityKey: data},
	}, err
}
