package launcher

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/internal/delay"
	"github.com/podagent/podagent/pkg/launcher/internal/keys"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// IdentityVersion is one key of an identity.
type IdentityVersion struct {
	Version                    int       // from 1 on
	Key                        string    // its fingerprint
	Created, Expires, Retiring time.Time // zero means unknown, never, and not retiring
	Sandboxes, Others          int       // how many were told of a change, or have other identities
}

// IdentityVersions returns the identity's keys. The first launches and signs.
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
	return IdentityVersion{Version: v.number, Key: v.fingerprint(), Created: v.created, Expires: v.expires, Retiring: v.retiring}
}

// RotateIdentity makes a new key, due after lasts (0: never), and has the namespace's agents
// accept it. It exists even if some do not: see the error.
func (k *Kubernetes) RotateIdentity(ctx context.Context, lasts time.Duration) (IdentityVersion, error) {
	c, store, ctx, err := k.keeper(ctx)
	if err != nil {
		return IdentityVersion{}, err
	}
	var v keyVersion
	err = store.change(ctx, func(versions []keyVersion) ([]keyVersion, error) {
		v, err = next(versions, lasts)
		return slices.Concat([]keyVersion{v}, versions), err
	})
	if err != nil {
		return IdentityVersion{}, fmt.Errorf("cannot make a new key: %w", err)
	}
	c.log.Info("made a new key of the identity", "version", v.number, "key", v.fingerprint())
	change := v.shown()
	if _, err = c.identities.fresh(ctx, 0); err == nil {
		change.Sandboxes, change.Others, err = c.tellAll(ctx, false)
	}
	return change, err
}

// keeper returns the cluster, and where the identity is kept.
func (k *Kubernetes) keeper(ctx context.Context) (*cluster, keyStore, context.Context, error) {
	c, ctx, err := k.cluster(ctx)
	if err != nil {
		return nil, nil, ctx, err
	}
	store, err := k.store(c)
	return c, store, ctx, err
}

// RetireIdentity deletes an older key once all orchestrators have noticed: after some 40
// seconds. While sandboxes need it, it stays, and the error names them. If it must not look
// for them in all namespaces, it fails with [ErrForbidden], unless onlyHere keeps it from that.
func (k *Kubernetes) RetireIdentity(ctx context.Context, version int, onlyHere bool) (IdentityVersion, error) {
	c, store, ctx, err := k.keeper(ctx)
	if err != nil {
		return IdentityVersion{}, err
	}
	old, err := c.beginRetirement(ctx, store, version, onlyHere)
	if err != nil {
		return IdentityVersion{}, err
	}
	change := old.shown()
	if delay.For(ctx, settleTime); ctx.Err() != nil {
		return change, fmt.Errorf("version %d of the identity is retiring: %w", version, context.Cause(ctx))
	}
	change.Sandboxes, change.Others, err = c.useGoodKeys(ctx)
	if err == nil && !onlyHere {
		err = c.checkElsewhere(ctx, old)
	}
	if err == nil {
		err = store.change(ctx, func(versions []keyVersion) ([]keyVersion, error) { return without(versions, old), nil })
	}
	if err != nil {
		return change, fmt.Errorf("version %d of the identity stays, and is retiring until it is retired again: %w", version, err)
	}
	c.log.Info("retired a key of the identity", "version", version, "key", old.fingerprint())
	_, err = c.identities.fresh(ctx, 0)
	return change, err
}

// beginRetirement marks a version as retiring, so that no program that reads the identity
// from now on uses it. It does so only if the retirement has the permissions that it takes.
func (c *cluster) beginRetirement(ctx context.Context, store keyStore, version int, onlyHere bool) (old keyVersion, err error) {
	err = store.change(ctx, func(versions []keyVersion) ([]keyVersion, error) {
		r, err := newRing(versions)
		if err != nil {
			return nil, err
		}
		switch i := slices.IndexFunc(r, func(v keyVersion) bool { return v.number == version }); i {
		case -1:
			return nil, fmt.Errorf("the identity has no version %d", version)
		case 0:
			return nil, fmt.Errorf("version %d of the identity launches: rotate it first", version)
		default:
			old = r[i]
		}
		if err := c.mayLook(ctx, onlyHere); err != nil {
			return nil, fmt.Errorf("cannot retire version %d of the identity: %w", version, err)
		}
		if old.retiring.IsZero() {
			old.retiring = time.Now()
		}
		return append(without(versions, old), old), nil // at the end, where no program takes it for the newest
	})
	return old, err
}

// mayLook returns an error if a permission is missing to look for what needs a key, so that
// nobody waits for a retirement that cannot succeed.
func (c *cluster) mayLook(ctx context.Context, onlyHere bool) error {
	one := metav1.ListOptions{LabelSelector: ours, Limit: 1}
	if _, err := c.api.CoreV1().PersistentVolumeClaims(c.namespace).List(ctx, one); err != nil {
		return lookedForClaims(err)
	}
	if onlyHere {
		return nil
	}
	_, err := c.api.CoreV1().Pods(metav1.NamespaceAll).List(ctx, one)
	if err == nil {
		_, err = c.api.CoreV1().PersistentVolumeClaims(metav1.NamespaceAll).List(ctx, one)
	}
	return lookedElsewhere(err)
}

// useGoodKeys makes the namespace's agents accept only the good ones of our keys, and signs
// notes anew with them. It waits some time for agents that are starting.
func (c *cluster) useGoodKeys(ctx context.Context) (told, others int, err error) {
	if _, err := c.identities.fresh(ctx, 0); err != nil {
		return 0, 0, err
	}
	for late := time.Now().Add(startPatience); ; delay.For(ctx, time.Second) {
		told, others, err = c.tellAll(ctx, true)
		if !errors.Is(err, errStarting) || ctx.Err() != nil || time.Now().After(late) {
			return told, others, errors.Join(err, c.signAll(ctx))
		}
	}
}

// signAll signs anew the notes of all claims that were signed by a version of the identity
// which is no longer good.
func (c *cluster) signAll(ctx context.Context) error {
	list, err := c.api.CoreV1().PersistentVolumeClaims(c.namespace).List(ctx, metav1.ListOptions{LabelSelector: ours})
	if err != nil {
		return lookedForClaims(err)
	}
	var failed []error
	for _, claim := range list.Items {
		id := claim.Annotations[podmeta.AnnotationID]
		failed = append(failed, wrap("signing", id, c.signAgain(ctx, claim.Name, id)))
	}
	return errors.Join(failed...)
}

// lookedForClaims returns the error of a look at the namespace's claims.
func lookedForClaims(err error) error {
	if isRefusal(err) {
		return fmt.Errorf("%w: %w (deploy/claims-rbac.yaml has the permissions): paused sandboxes may need the key", ErrForbidden, err)
	}
	return err
}

// signAgain signs the note of a claim anew, if need be.
func (c *cluster) signAgain(ctx context.Context, name, id string) error {
	for ctx.Err() == nil {
		claim, err := c.claim(ctx, name)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if r := c.identities.now(); r.of(signerOf(claim)) == nil || r.accepted().of(signerOf(claim)) != nil {
			return nil
		}
		// Whether the pod may be made is for a resume to say: what is refused today may be
		// allowed another day, and without the key its environment is lost.
		pod, generation, err := c.readNote(ctx, claim, id)
		if isForeignNote(err) {
			c.log.Warn("a sandbox cannot be resumed, and its note is not signed anew", "sandbox", id, "claim", name, "error", err)
			return nil // otherwise a user who may patch claims could keep the key from retiring
		}
		if err != nil {
			return err
		}
		// It keeps its generation, so that a launch that has taken the claim meanwhile
		// replaces it.
		if err = c.note(ctx, claim, pod, generation); !apierrors.IsConflict(err) {
			return err
		}
	}
	return context.Cause(ctx)
}

// isForeignNote reports whether this is the error of a note that our identity has not signed
// for its claim.
func isForeignNote(err error) bool {
	return errors.Is(err, keys.ErrNoNote) || errors.Is(err, keys.ErrSignature) || errors.Is(err, ErrOtherKey)
}

// checkElsewhere returns an error if sandboxes of other namespaces need a key.
func (c *cluster) checkElsewhere(ctx context.Context, old keyVersion) error {
	there := map[string]bool{} // by namespace and name; useGoodKeys has done our namespace
	pods, err := c.podsWithIDs(ctx, metav1.NamespaceAll)
	if err != nil {
		return lookedElsewhere(err)
	}
	for i := range pods {
		if pod := &pods[i]; pod.Namespace != c.namespace && !ended(pod) && slices.Contains(acceptedNow(pod), old.fingerprint()) {
			there[pod.Namespace+"/"+pod.Name] = true
		}
	}
	claims, err := c.api.CoreV1().PersistentVolumeClaims(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: ours})
	if err != nil {
		return lookedElsewhere(err)
	}
	for i := range claims.Items {
		if claim := &claims.Items[i]; claim.Namespace != c.namespace && signerOf(claim) == old.fingerprint() {
			there[claim.Namespace+"/"+claim.Name] = true
		}
	}
	return neededBy(slices.Sorted(maps.Keys(there)))
}

// neededBy returns an error that names the first of these sandboxes. Anyone who may make pods
// or claims somewhere can make them look like ours.
func neededBy(sandboxes []string) error {
	if len(sandboxes) == 0 {
		return nil
	}
	first := strings.Join(sandboxes[:min(len(sandboxes), shownElsewhere)], ", ")
	if more := len(sandboxes) - shownElsewhere; more > 0 {
		first = fmt.Sprintf("%s and %d more", first, more)
	}
	return fmt.Errorf("sandboxes of other namespaces need it (%s): retire it there, too, or, if they are not yours, with --only-here (in the library, onlyHere)", first)
}

// lookedElsewhere explains an error of the list of all namespaces' sandboxes.
func lookedElsewhere(err error) error {
	if isRefusal(err) {
		return fmt.Errorf("%w: cannot look for its sandboxes in other namespaces (if there are none, retire it only here): %w", ErrForbidden, err)
	}
	return err
}
