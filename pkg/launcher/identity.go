package launcher

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/podagent/podagent/pkg/launcher/podmeta"
	"github.com/podagent/podagent/pkg/podapi"
)

// identityKey is the key of the identity in its Secret.
const identityKey = "identity.pem"

// identityFile returns the identity in a file, and creates it on first use: see
// [Kubernetes].
func identityFile(path string) (podapi.Identity, error) {
	path, err := identityPath(path)
	if err != nil {
		return podapi.Identity{}, err
	}
	id, err := readIdentity(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := writeIdentity(path); err != nil {
			return podapi.Identity{}, fmt.Errorf("cannot make an identity: %w", err)
		}
		id, err = readIdentity(path)
	}
	return id, err
}

// identityPath returns the path of the file, or the default path.
func identityPath(path string) (string, error) {
	if path != "" {
		return path, nil
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("cannot find the identity: %w", err)
	}
	return filepath.Join(dir, "podagent", "identity.pem"), nil
}

func readIdentity(path string) (podapi.Identity, error) {
	info, err := os.Stat(path)
	if err != nil {
		return podapi.Identity{}, err
	}
	if !info.Mode().IsRegular() {
		return podapi.Identity{}, fmt.Errorf("%s is not a file, but %v", path, info.Mode().Type())
	}
	if mode := info.Mode().Perm(); othersMayRead(mode) {
		return podapi.Identity{}, fmt.Errorf("others can read the identity in %s (mode %04o): chmod 600 it, or make another", path, mode)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return podapi.Identity{}, err
	}
	id, err := podapi.ParseIdentity(data)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return id, err
}

// writeIdentity creates an identity at path, unless one exists by then. If several
// programs do this at once, all use the first.
func writeIdentity(path string) error {
	id, err := podapi.NewIdentity()
	if err != nil {
		return err
	}
	data, err := id.MarshalPEM()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".identity-") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// IdentitySecret returns the identity in a Secret, and creates it on first use. If
// several orchestrators do this at once, all use the first.
func IdentitySecret(ctx context.Context, client kubernetes.Interface, namespace, name string) (podapi.Identity, error) {
	id, err := readIdentitySecret(ctx, client, namespace, name)
	if !apierrors.IsNotFound(err) {
		return id, err
	}
	secret, err := newIdentitySecret(name)
	if err != nil {
		return podapi.Identity{}, err
	}
	secret, err = client.CoreV1().Secrets(namespace).Create(ctx, secret, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return readIdentitySecret(ctx, client, namespace, name)
	}
	return parseIdentitySecret(secret, err, namespace, name)
}

// sharedIdentity is IdentitySecret, but makes none if the namespace of the sandboxes has
// one: they would not answer another.
func sharedIdentity(ctx context.Context, client kubernetes.Interface, secret, sandboxes string) (podapi.Identity, error) {
	namespace, name := secretPlace(secret, sandboxes)
	id, err := readIdentitySecret(ctx, client, namespace, name)
	if !apierrors.IsNotFound(err) {
		return id, err
	}
	if err := checkLeft(ctx, client, namespace, name, sandboxes); err != nil {
		return podapi.Identity{}, err
	}
	return IdentitySecret(ctx, client, namespace, name)
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
	return fmt.Errorf("the identity is not in Secret %[1]s/%[2]s, but in %[3]s/%[2]s, where whoever may create pods can read it: "+
		`copy it ("kubectl get secret %[2]s -n %[3]s -o go-template='{{index .data %[4]q | base64decode}}' | `+
		`kubectl create secret generic %[2]s -n %[1]s --from-file=%[4]s=/dev/stdin"), `+
		"or delete it, and its sandboxes are lost", namespace, name, sandboxes, identityKey)
}

// readIdentitySecret returns the identity in an existing Secret.
func readIdentitySecret(ctx context.Context, client kubernetes.Interface, namespace, name string) (podapi.Identity, error) {
	secret, err := client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	return parseIdentitySecret(secret, err, namespace, name)
}

// parseIdentitySecret returns the identity in the result of an API call.
func parseIdentitySecret(secret *corev1.Secret, err error, namespace, name string) (podapi.Identity, error) {
	if isRefusal(err) {
		err = fmt.Errorf("%w: %w", ErrForbidden, err)
	}
	if err != nil {
		return podapi.Identity{}, fmt.Errorf("cannot get the identity from Secret %s/%s: %w", namespace, name, err)
	}
	id, err := podapi.ParseIdentity(secret.Data[identityKey])
	if err != nil {
		err = fmt.Errorf("key %s of Secret %s/%s: %w", identityKey, namespace, name, err)
	}
	return id, err
}

func newIdentitySecret(name string) (*corev1.Secret, error) {
	id, err := podapi.NewIdentity()
	if err != nil {
		return nil, err
	}
	data, err := id.MarshalPEM()
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{podmeta.LabelManagedBy: podmeta.ManagedBy}},
		Data:       map[string][]byte{identityKey: data},
		Immutable:  new(true),
	}, err
}
