package launcher

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
	"github.com/podagent/podagent/pkg/podapi"
)

// identityKey is the key of the identity in its Secret.
const identityKey = "identity.pem"

// identityFile returns the identity in a file, and creates it on first use: see
// [Kubernetes].
func identityFile(path string) (ring, error) {
	path, err := identityPath(path)
	if err != nil {
		return nil, err
	}
	versions, err := readIdentity(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeIdentity(path); err != nil {
			return nil, fmt.Errorf("cannot make an identity: %w", err)
		}
		versions, err = readIdentity(path)
	}
	if err != nil {
		return nil, err
	}
	return newRing(versions)
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

// readIdentity returns all versions of the identity in a file.
func readIdentity(path string) ([]keyVersion, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file, but %v", path, info.Mode().Type())
	}
	if err := fsops.CheckPrivate(info); err != nil {
		return nil, fmt.Errorf("the identity in %s is not yours alone: %w: chmod 600 it, or make another", path, err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	versions, err := parseVersions(data)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return versions, err
}

// makeIdentity creates an identity at path, unless one exists by then. If several
// programs do this at once, all use the first.
func makeIdentity(path string) error {
	id, err := podapi.NewIdentity()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	err = writeVersions(path, []keyVersion{{Identity: id, number: 1, created: time.Now()}}, os.Link)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// writeVersions writes versions of an identity into a file beside path, which put then puts
// in place.
func writeVersions(path string, versions []keyVersion, put func(from, to string) error) error {
	data, err := formatVersions(versions)
	if err != nil {
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
	return put(f.Name(), path)
}

// The headers of a version in a file. One that has none is the first.
const (
	headerVersion = "Version"
	headerCreated = "Created"
	headerExpires = "Expires"
)

// parseVersions returns the versions of an identity: PEM blocks, one after the other.
func parseVersions(data []byte) (versions []keyVersion, err error) {
	for {
		block, rest := pem.Decode(data)
		if block == nil && len(versions) > 0 {
			return versions, nil
		}
		v := keyVersion{number: 1}
		if v.Identity, err = podapi.ParseIdentity(data); err != nil {
			return nil, err
		}
		if err := v.setHeaders(block.Headers); err != nil {
			return nil, err
		}
		versions = append(versions, v)
		data = rest
	}
}

func (v *keyVersion) setHeaders(headers map[string]string) (err error) {
	if text := headers[headerVersion]; text != "" {
		if v.number, err = strconv.Atoi(text); err != nil || v.number < 1 {
			return fmt.Errorf("the version %q is not a positive number", text)
		}
	}
	for name, t := range map[string]*time.Time{headerCreated: &v.created, headerExpires: &v.expires} {
		if text := headers[name]; text != "" {
			if *t, err = time.Parse(time.RFC3339, text); err != nil {
				return fmt.Errorf("version %d of the identity: %w", v.number, err)
			}
		}
	}
	return nil
}

// formatVersions is the opposite of parseVersions. The first is what a program sees that
// knows of no versions.
func formatVersions(versions []keyVersion) ([]byte, error) {
	var data []byte
	for _, v := range versions {
		text, err := v.MarshalPEM()
		if err != nil {
			return nil, err
		}
		block, _ := pem.Decode(text)
		block.Headers = map[string]string{headerVersion: strconv.Itoa(v.number)}
		for name, t := range map[string]time.Time{headerCreated: v.created, headerExpires: v.expires} {
			if !t.IsZero() {
				block.Headers[name] = t.UTC().Format(time.RFC3339)
			}
		}
		data = append(data, pem.EncodeToMemory(block)...)
	}
	return data, nil
}

// IdentitySecret returns the newest version of the identity in a Secret, and creates it on
// first use. If several orchestrators do this at once, all use the first.
func IdentitySecret(ctx context.Context, client kubernetes.Interface, namespace, name string) (podapi.Identity, error) {
	r, err := identitySecret(ctx, client, namespace, name)
	if err != nil {
		return podapi.Identity{}, err
	}
	return r[0].Identity, nil
}

func identitySecret(ctx context.Context, client kubernetes.Interface, namespace, name string) (ring, error) {
	versions, err := readIdentitySecrets(ctx, client, namespace, name)
	if apierrors.IsNotFound(err) {
		secret, failed := newIdentitySecret(name)
		if failed != nil {
			return nil, failed
		}
		secret, err = client.CoreV1().Secrets(namespace).Create(ctx, secret, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			versions, err = readIdentitySecrets(ctx, client, namespace, name)
		} else {
			var v keyVersion
			v, err = parseIdentitySecret(secret, err, namespace, name)
			versions = []keyVersion{v}
		}
	}
	if err != nil {
		return nil, err
	}
	return newRing(versions)
}

// sharedIdentity is identitySecret, but makes none if the namespace of the sandboxes has
// one: they would not answer another.
func sharedIdentity(ctx context.Context, client kubernetes.Interface, secret, sandboxes string) (ring, error) {
	namespace, name := secretPlace(secret, sandboxes)
	versions, err := readIdentitySecrets(ctx, client, namespace, name)
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
	return fmt.Errorf("the identity is not in Secret %[1]s/%[2]s, but in %[3]s/%[2]s, where whoever may create pods can read it: "+
		`copy it ("kubectl get secret %[2]s -n %[3]s -o go-template='{{index .data %[4]q | base64decode}}' | `+
		`kubectl create secret generic %[2]s -n %[1]s --from-file=%[4]s=/dev/stdin"), `+
		"or delete it, and its sandboxes are lost", namespace, name, sandboxes, identityKey)
}

// identitySecrets are the names of the Secrets that an identity may have, one for each
// version. They are few and known, so that a Role can list them.
func identitySecrets(name string) []string {
	names := []string{name}
	for i := 2; i <= maxVersions; i++ {
		names = append(names, fmt.Sprintf("%s-%d", name, i))
	}
	return names
}

// readIdentitySecrets returns all versions of the identity in existing Secrets. A Role that
// was made before identities had versions allows to get only the first.
func readIdentitySecrets(ctx context.Context, client kubernetes.Interface, namespace, name string) ([]keyVersion, error) {
	names := identitySecrets(name)
	versions, errs := make([]keyVersion, len(names)), make([]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() {
			secret, err := client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
			versions[i], errs[i] = parseIdentitySecret(secret, err, namespace, name)
		})
	}
	all.Wait()
	var there []keyVersion
	for i, err := range errs {
		switch {
		case err == nil:
			there = append(there, versions[i])
		case i > 0 && errors.Is(err, ErrForbidden), apierrors.IsNotFound(err):
		default:
			return nil, err
		}
	}
	if len(there) == 0 {
		return nil, errs[0]
	}
	return there, nil
}

// parseIdentitySecret returns the version in the result of an API call.
func parseIdentitySecret(secret *corev1.Secret, err error, namespace, name string) (keyVersion, error) {
	if isRefusal(err) {
		err = fmt.Errorf("%w: %w", ErrForbidden, err)
	}
	if err != nil {
		return keyVersion{}, fmt.Errorf("cannot get the identity from Secret %s/%s: %w", namespace, name, err)
	}
	versions, err := parseVersions(secret.Data[identityKey])
	if err != nil {
		return keyVersion{}, fmt.Errorf("key %s of Secret %s/%s: %w", identityKey, namespace, name, err)
	}
	v := versions[0]
	v.secret, v.created = name, secret.CreationTimestamp.Time
	return v, nil
}

func newIdentitySecret(name string) (*corev1.Secret, error) {
	id, err := podapi.NewIdentity()
	if err != nil {
		return nil, err
	}
	return secretOf(keyVersion{Identity: id, number: 1, secret: name})
}

// secretOf returns the Secret of a version.
func secretOf(v keyVersion) (*corev1.Secret, error) {
	data, err := formatVersions([]keyVersion{v})
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: v.secret, Labels: map[string]string{podmeta.LabelManagedBy: podmeta.ManagedBy}},
		Data:       map[string][]byte{identityKey: data},
		Immutable:  new(true),
	}, err
}
