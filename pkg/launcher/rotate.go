package launcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podagent/podagent/pkg/launcher/podmeta"
	"github.com/podagent/podagent/pkg/podapi"
)

// IdentityVersion is one key of an identity.
type IdentityVersion struct {
	Version          int       // from 1 on
	Key              string    // its fingerprint
	Created, Expires time.Time // zero if unknown, and for never
}

// IdentityVersions returns the keys of the identity. The first launches and signs.
func (k *Kubernetes) IdentityVersions(ctx context.Context) ([]IdentityVersion, error) {
	c, ctx, err := k.cluster(ctx)
	if err != nil {
		return nil, err
	}
	r, err := c.identities.fresh(ctx, 0)
	var list []IdentityVersion
	for _, v := range r {
		list = append(list, v.shown())
	}
	return list, err
}

func (v *keyVersion) shown() IdentityVersion {
	return IdentityVersion{v.number, v.fingerprint(), v.created, v.expires}
}

// RotateIdentity makes a new key, which may be due after a while (0: never), and has the
// namespace's agents accept it, too. It is there even if an error names some that do not.
func (k *Kubernetes) RotateIdentity(ctx context.Context, lasts time.Duration) (IdentityVersion, error) {
	c, ctx, err := k.cluster(ctx)
	if err != nil {
		return IdentityVersion{}, err
	}
	store, err := k.store(c)
	if err != nil {
		return IdentityVersion{}, err
	}
	v, err := store.extend(ctx, lasts)
	if err != nil {
		return IdentityVersion{}, fmt.Errorf("cannot make a new key: %w", err)
	}
	c.log.Info("made a new key of the identity", "version", v.number, "key", v.fingerprint())
	r, err := c.identities.fresh(ctx, 0)
	if err != nil {
		return v.shown(), err
	}
	return v.shown(), c.tellAll(ctx, r, false)
}

// RetireIdentity ends an older key: no agent in the namespace accepts it any more, and what
// it signed is signed anew. If sandboxes still need it, the key stays, and the error names
// them.
func (k *Kubernetes) RetireIdentity(ctx context.Context, version int) error {
	c, ctx, err := k.cluster(ctx)
	if err != nil {
		return err
	}
	store, err := k.store(c)
	if err != nil {
		return err
	}
	all, err := c.identities.fresh(ctx, 0)
	if err != nil {
		return err
	}
	old, rest, err := all.without(version)
	if err != nil {
		return err
	}
	if err := errors.Join(c.tellAll(ctx, rest, true), c.signAll(ctx, old)); err != nil {
		return fmt.Errorf("version %d of the identity stays: %w", version, err)
	}
	if err := c.checkElsewhere(ctx, old); err != nil {
		return err
	}
	if err := store.drop(ctx, old); err != nil {
		return fmt.Errorf("cannot delete version %d of the identity: %w", version, err)
	}
	c.log.Info("retired a key of the identity", "version", version, "key", old.fingerprint())
	_, err = c.identities.fresh(ctx, 0)
	return err
}

// without returns a version that may be retired, and the others.
func (r ring) without(number int) (old keyVersion, rest ring, err error) {
	i := slices.IndexFunc(r, func(v keyVersion) bool { return v.number == number })
	switch {
	case i < 0:
		return old, nil, fmt.Errorf("the identity has no version %d", number)
	case i == 0:
		return old, nil, fmt.Errorf("version %d of the identity launches: rotate it first", number)
	case time.Since(r[0].created) < settleTime:
		return old, nil, fmt.Errorf("version %d of the identity is too new: other orchestrators know it only %v after it was made", r[0].number, settleTime)
	}
	return r[i], slices.Delete(slices.Clone(r), i, i+1), nil
}

// tellAll has the agents of all sandboxes accept the keys of a ring, and no others. What is
// final must last: an agent that would forget it is an error.
func (c *cluster) tellAll(ctx context.Context, r ring, final bool) error {
	pods, err := c.pods(ctx)
	if err != nil {
		return err
	}
	failed := make([]error, len(pods))
	var telling sync.WaitGroup
	slots := make(chan struct{}, reapAtOnce)
	for i := range pods {
		slots <- struct{}{}
		telling.Go(func() {
			defer func() { <-slots }()
			if err := c.tell(ctx, &pods[i], r, final); !apierrors.IsNotFound(err) {
				failed[i] = wrap("replacing the keys of", pods[i].Annotations[podmeta.AnnotationID], err)
			}
		})
	}
	telling.Wait()
	return errors.Join(failed...)
}

// tell tells one pod. Whose it is, is known by what nobody can change: the keys that its agent
// was started with, and what they have signed.
func (c *cluster) tell(ctx context.Context, pod *corev1.Pod, r ring, final bool) error {
	for {
		if ended(pod) || pod.DeletionTimestamp != nil || c.identities.now().of(acceptedNow(pod)...) == nil {
			return nil
		}
		now, chain, err := c.tellPod(ctx, pod, r, final)
		switch {
		case apierrors.IsConflict(err):
			if pod, err = c.api.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{}); err != nil {
				return err
			}
			continue
		case err != nil || now == nil:
			return err
		}
		if isRunning(now) {
			if err := c.tellAgent(ctx, now, chain); err != nil {
				return err
			}
		}
		_, err = c.annotatePod(ctx, now, map[string]string{podmeta.AnnotationKey: fingerprints(r.authorized())})
		if !apierrors.IsConflict(err) {
			return err
		}
		pod = now // somebody wrote a heartbeat, say: all is as before
		if pod, err = c.api.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{}); err != nil {
			return err
		}
	}
}

// tellPod writes into a pod which keys its agent accepts when it starts, and returns the pod
// as it is then. It is nil if the pod cannot have that, and need not.
func (c *cluster) tellPod(ctx context.Context, pod *corev1.Pod, r ring, final bool) (now *corev1.Pod, chain string, err error) {
	if variable(agentContainer(pod).Env, keychainVariable).ValueFrom == nil {
		if final {
			err = errors.New("its pod is of an older version, which knows no other keys: launch it again")
		}
		return nil, "", err // it still accepts the older key
	}
	if chain, err = c.lengthen(pod, r); err != nil {
		return nil, "", err
	}
	now, err = c.annotatePod(ctx, pod, map[string]string{podmeta.AnnotationKeychain: chain})
	if err == nil && final && !isRunning(now) && now.Spec.NodeName != "" {
		err = errors.New("its agent is about to start, or cannot: try again later, or remove it") // it may have read the old annotation
	}
	return now, chain, err
}

// tellAgent has a running agent accept the keys of a keychain. An older agent gets the key
// that the pod still names.
func (c *cluster) tellAgent(ctx context.Context, pod *corev1.Pod, chain string) error {
	return c.openPod(pod).query(ctx, reapPatience, func(ctx context.Context, client *podapi.Client) error {
		info, err := client.Info(ctx)
		if err != nil {
			return err
		}
		if !slices.Contains(info.Capabilities, "keychain") {
			return fmt.Errorf("its agent (%s) cannot replace keys: launch it again", info.Version)
		}
		return client.Configure(ctx, podapi.Config{Keychain: chain})
	})
}

// annotatePod writes annotations of a pod, unless it has changed.
func (c *cluster) annotatePod(ctx context.Context, pod *corev1.Pod, annotations map[string]string) (*corev1.Pod, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "resourceVersion": pod.ResourceVersion, "annotations": annotations,
	}})
	if err != nil {
		return nil, err
	}
	now, err := c.api.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return now, c.apiError(pod.Name, err)
}

// signAll signs anew what a version of the identity has signed: how the pods of sandboxes
// with claims of their own are made.
func (c *cluster) signAll(ctx context.Context, old keyVersion) error {
	list, err := c.api.CoreV1().PersistentVolumeClaims(c.namespace).List(ctx, metav1.ListOptions{LabelSelector: ours})
	if isRefusal(err) {
		return fmt.Errorf("%w: %w (deploy/claims-rbac.yaml has the permissions): paused sandboxes may need the key", ErrForbidden, err)
	}
	if err != nil {
		return err
	}
	var failed []error
	for _, claim := range list.Items {
		id := claim.Annotations[podmeta.AnnotationID]
		failed = append(failed, wrap("signing", id, c.signAgain(ctx, claim.Name, id, old)))
	}
	return errors.Join(failed...)
}

// signAgain signs the note of a claim anew, if a version of the identity has signed it, or is
// among the keys of the pod in it.
func (c *cluster) signAgain(ctx context.Context, name, id string, old keyVersion) error {
	for ctx.Err() == nil {
		claim, err := c.claim(ctx, name)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		signers := strings.Split(signerOf(claim), ",")
		if c.identities.now().of(signers...) == nil {
			return nil // of nobody, or of another identity
		}
		pod, generation, err := c.notedPod(ctx, claim, id)
		if err != nil {
			return err
		}
		if !slices.Contains(append(signers, acceptedNow(pod)...), old.fingerprint()) {
			return nil
		}
		_, rest, err := c.identities.now().without(old.number)
		if err != nil {
			return err
		}
		setKeys(pod, rest)
		// It keeps its generation, so that a launch that has taken the claim meanwhile
		// replaces it.
		if err = c.note(ctx, claim, pod, generation); !apierrors.IsConflict(err) {
			return err
		}
	}
	return context.Cause(ctx)
}

// checkElsewhere returns an error if sandboxes of other namespaces need a key. Who may not
// list them is trusted to know.
func (c *cluster) checkElsewhere(ctx context.Context, old keyVersion) error {
	there := map[string]bool{}
	pods, err := c.api.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: ours})
	if err != nil && !isRefusal(err) {
		return err
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; !ended(pod) && slices.Contains(acceptedNow(pod), old.fingerprint()) {
			there[pod.Namespace] = true
		}
	}
	claims, err := c.api.CoreV1().PersistentVolumeClaims(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: ours})
	if err != nil && !isRefusal(err) {
		return err
	}
	for i := range claims.Items {
		if claim := &claims.Items[i]; strings.Contains(signerOf(claim), old.fingerprint()) {
			there[claim.Namespace] = true
		}
	}
	delete(there, c.namespace) // it was seen to
	if len(there) == 0 {
		return nil
	}
	return fmt.Errorf("version %d of the identity stays: there are sandboxes that need it in %s: retire it there, too", old.number, strings.Join(slices.Sorted(maps.Keys(there)), ", "))
}

// keyStore keeps the versions of an identity.
type keyStore interface {
	// extend adds a version.
	extend(ctx context.Context, lasts time.Duration) (keyVersion, error)
	drop(ctx context.Context, v keyVersion) error
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

// fileStore is the path of a file. Rotations of one at the same time are up to its user.
type fileStore string

func (f fileStore) extend(_ context.Context, lasts time.Duration) (keyVersion, error) {
	versions, err := readIdentity(string(f))
	if err != nil {
		return keyVersion{}, err
	}
	v, err := next(versions, lasts)
	if err != nil {
		return v, err
	}
	return v, writeVersions(string(f), slices.Concat([]keyVersion{v}, versions), os.Rename)
}

func (f fileStore) drop(_ context.Context, v keyVersion) error {
	versions, err := readIdentity(string(f))
	if err != nil {
		return err
	}
	rest := slices.DeleteFunc(versions, func(other keyVersion) bool { return other.number == v.number })
	return writeVersions(string(f), rest, os.Rename)
}

type secretStore struct {
	*cluster
	in, name string
}

// extend makes a Secret under the first name that is free. Of two rotations at once, one
// fails.
func (s *secretStore) extend(ctx context.Context, lasts time.Duration) (keyVersion, error) {
	versions, err := readIdentitySecrets(ctx, s.api, s.in, s.name)
	if err != nil {
		return keyVersion{}, err
	}
	v, err := next(versions, lasts)
	if err != nil {
		return v, err
	}
	for _, name := range identitySecrets(s.name) {
		if !slices.ContainsFunc(versions, func(other keyVersion) bool { return other.secret == name }) {
			v.secret = name
			break
		}
	}
	secret, err := secretOf(v)
	if err != nil {
		return v, err
	}
	_, err = s.api.CoreV1().Secrets(s.in).Create(ctx, secret, metav1.CreateOptions{})
	return v, s.refused(err)
}

func (s *secretStore) drop(ctx context.Context, v keyVersion) error {
	err := s.api.CoreV1().Secrets(s.in).Delete(ctx, v.secret, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return s.refused(err)
}

// refused names the class of a refusal.
func (s *secretStore) refused(err error) error {
	if isRefusal(err) {
		return fmt.Errorf("%w: %w (deploy/identity-rotation-rbac.yaml has the permissions)", ErrForbidden, err)
	}
	return err
}
