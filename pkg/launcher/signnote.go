package launcher

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podagent/podagent/pkg/launcher/internal/keys"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// NotedPod returns the pod that [Kubernetes.Resume] would make from the note in the claim,
// whoever wrote that, its digest, and whether this identity sealed its
// environment. The error says why it cannot be signed.
func (k *Kubernetes) NotedPod(ctx context.Context, id string) (pod *corev1.Pod, digest string, sealed bool, err error) {
	c, ctx, err := k.cluster(ctx)
	if err != nil {
		return nil, "", false, wrap("looking at", id, err)
	}
	claim, pod, digest, err := c.anyNote(ctx, id)
	return pod, digest, err == nil && isSealed(claim), wrap("looking at", id, err)
}

// SignNote signs what NotedPod returned with this digest, once a person has looked at it.
// If the note has changed since, the error is [ErrUnsigned].
func (k *Kubernetes) SignNote(ctx context.Context, id, digest string) error {
	c, ctx, err := k.cluster(ctx)
	if err != nil {
		return wrap("signing", id, err)
	}
	return wrap("signing", id, c.signNote(ctx, id, digest))
}

func (c *cluster) signNote(ctx context.Context, id, digest string) error {
	for {
		claim, pod, now, err := c.anyNote(ctx, id)
		if err != nil {
			return err
		}
		if now != digest {
			return c.podError(claim, ErrUnsigned, "", "its claim's note has changed since it was looked at: the digest is now "+now)
		}
		next, err := c.nextGeneration(ctx, claim, id)
		if err != nil {
			return err
		}
		err = c.note(ctx, claim, pod, max(next, time.Now().UnixNano()))
		if err == nil {
			c.log.Info("signed note", "sandbox", id, "claim", claim.Name, "uid", claim.UID, "digest", digest)
		}
		if !apierrors.IsConflict(err) { // controllers may have changed the claim
			return err
		}
	}
}

// anyNote returns the claim of a sandbox, and the pod of its note with the note's
// digest, if the identity may sign that.
func (c *cluster) anyNote(ctx context.Context, id string) (*corev1.PersistentVolumeClaim, *corev1.Pod, string, error) {
	claim, _, err := c.heldFiles(ctx, id)
	if claim == nil && err == nil {
		claim, err = c.namedClaim(ctx, id)
	}
	if errors.Is(err, ErrNotFound) {
		var pod *corev1.Pod
		if pod, err = c.lookup(ctx, id); err == nil { // there is a sandbox, but nothing to sign
			err = c.podError(pod, ErrNotKept, "", "its workspace is not a claim of its own")
		}
	}
	if err != nil {
		return nil, nil, "", err
	}
	pod, err := c.unverified(ctx, claim, id)
	if err == nil {
		err = c.checkNoted(claim, id, pod)
	}
	sum := sha256.Sum256([]byte(claim.Annotations[podmeta.AnnotationPod]))
	return claim, pod, hex.EncodeToString(sum[:]), err
}

// unverified returns the pod of a note that need not be signed. Its environment is the one
// that this identity has sealed for this claim, or that an older launcher left open.
func (c *cluster) unverified(ctx context.Context, claim *corev1.PersistentVolumeClaim, id string) (*corev1.Pod, error) {
	if err := c.checkSigner(ctx, claim); err != nil {
		return nil, err
	}
	if !isSealed(claim) {
		return shownPod(claim)
	}
	note, err := keys.Parse(claim.Annotations[podmeta.AnnotationPod])
	if err != nil {
		return nil, err
	}
	about := c.subjectOf(claim.Name, string(claim.UID), id)
	v, err := c.versionOf(ctx, note.Signer)
	if err != nil {
		return nil, err
	}
	pod, err := restore(v.keys, about, note.Text)
	if err != nil {
		about.UID = ""
		pod, err = restore(v.keys, about, note.Text)
	}
	if err != nil {
		return nil, c.podError(claim, ErrNotOurs, "", fmt.Sprintf("%v: a launch makes the pod anew, and keeps the files", err))
	}
	return pod, nil
}

// isSealed reports whether a claim's note has its environment sealed. If not, any user who
// may patch claims can have written it.
func isSealed(claim *corev1.PersistentVolumeClaim) bool {
	_, err := keys.Parse(claim.Annotations[podmeta.AnnotationPod])
	return err == nil
}

// notedPod returns the pod of a note that is ours, and the note's generation.
func (c *cluster) notedPod(ctx context.Context, claim *corev1.PersistentVolumeClaim, id string) (*corev1.Pod, int64, error) {
	pod, generation, err := c.readNote(ctx, claim, id)
	if err == nil {
		err = c.checkNoted(claim, id, pod)
	}
	return pod, generation, err
}

// checkNoted checks that the pod of a note is one of this sandbox, and keeps its profile. It
// does not matter which keys are in it: see make.
func (c *cluster) checkNoted(claim *corev1.PersistentVolumeClaim, id string, pod *corev1.Pod) error {
	if err := checkShown(claim, pod, nil); err != nil {
		return err
	}
	if err := c.checkOurs(pod, id); err != nil {
		return err
	}
	if pod.Namespace != c.namespace || pod.Name != podmeta.NameOf(id) || claimName(pod) != claim.Name {
		return c.podError(pod, ErrNotOurs, "", "the claim's note is about a pod of another namespace or claim")
	}
	return c.checkMade(pod)
}

// checkMade checks that a pod which is about to be made keeps the profile that it was
// launched with.
func (c *cluster) checkMade(pod *corev1.Pod) error {
	if err := c.checkForm(pod.Name, "it", pod); err != nil {
		return err
	}
	var made traits
	err := json.Unmarshal([]byte(pod.Annotations[podmeta.AnnotationSpec]), &made)
	if err == nil && !slices.Contains([]Profile{Restricted, Baseline}, made.Profile) { // another would check nothing
		err = fmt.Errorf("it names the profile %q", made.Profile)
	}
	if err != nil {
		return c.podError(pod, ErrRejected, "", fmt.Sprintf("annotation %s does not say what it was made from: %v", podmeta.AnnotationSpec, err))
	}
	if problem := checkProfile(pod, made.Profile); problem != nil {
		return c.podError(pod, ErrRejected, "", "it "+problem.Msg)
	}
	return nil
}
