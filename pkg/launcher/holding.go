package launcher

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typed "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/podagent/podagent/internal/delay"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// A sandbox in a pod of a pool has a holding: a Lease of the id's own name, which says what
// pod the id holds, and which that pod owns, so that it goes with it. It counts as soon as the
// pod names it, too (podmeta.AnnotationHolding). Until then the launch that made it may give
// way. If the pod's workspace is kept, its claim owns the holding, too, which stays for as long as
// the files do (heldclaim.go). ARCHITECTURE.md ("Pods that wait for their sandboxes") says why one
// id never gets two pods.

// holdingName is a name that no pod has, and so no Lease of an exclusive owner: it has a dot.
func holdingName(id string) string { return "id." + podmeta.NameOf(id) }

func (c *cluster) holdings() typed.LeaseInterface {
	return c.api.CoordinationV1().Leases(c.namespace)
}

// podOf returns the pod of the sandbox, in whatever state: the one that its id holds, or the
// one of its own name. If there is neither, the error says that it was not found. The order
// matters: a pod of its own name that is there before a holding is not is never given up for
// one. A pod of a newer form comes with ErrNewer, so that it can be shown.
func (c *cluster) podOf(ctx context.Context, id string) (*corev1.Pod, error) {
	own, err := c.get(ctx, podmeta.NameOf(id))
	if err != nil && !apierrors.IsNotFound(err) {
		return own, err
	}
	pod, claim, heldErr := c.held(ctx, id)
	if pod != nil || heldErr != nil {
		return pod, heldErr
	}
	if err == nil && isBeside(own, claim) && c.checkOurs(own, id) == nil {
		if err = c.remove(ctx, own); err == nil {
			return nil, apierrors.NewNotFound(corev1.Resource("pods"), own.Name)
		}
	}
	return own, err
}

// isBeside reports whether a pod of the id's own name has not the claim that the id holds; nil is
// none. The launch that made it did not see the holding yet. It gives the pod up, or was killed.
func isBeside(own *corev1.Pod, claim *corev1.PersistentVolumeClaim) bool {
	return claim != nil && claimName(own) != claim.Name
}

// held returns the pod that the id holds, in whatever state, or else the claim that it holds, which
// is kept; nil if there is none. It waits while a launch is about to take a pod, and takes back
// what a launch that was killed has left. A holding of a newer form it leaves alone, whether that
// counts or not.
func (c *cluster) held(ctx context.Context, id string) (*corev1.Pod, *corev1.PersistentVolumeClaim, error) {
	var seen types.UID // the holding that has not counted since
	var since time.Time
	for wait := holdingPoll; ; wait = min(2*wait, holdingPatience/10) {
		held, err := c.holdings().Get(ctx, holdingName(id), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil, nil, nil
		}
		if err != nil {
			return nil, nil, c.apiError(podmeta.NameOf(id), err)
		}
		pod, claim, err := c.heldBy(ctx, held)
		if newer := c.checkForm(podmeta.NameOf(id), "its holding", held); newer != nil {
			return pod, claim, newer
		}
		if err != nil || claim != nil || pod != nil && isHeldBy(pod, held) {
			return pod, claim, err
		}
		if held.UID != seen {
			seen, since = held.UID, time.Now()
		}
		if pod == nil || time.Since(since) > holdingPatience {
			err = c.takeBack(ctx, held, pod)
		} else {
			delay.For(ctx, wait)
		}
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return nil, nil, err
		}
	}
}

// heldBy returns the pod that a holding names, or, if that is gone, its claim if it is kept. The
// order matters: a claim is kept before anybody deletes the pod and counts on the files.
func (c *cluster) heldBy(ctx context.Context, held *coordinationv1.Lease) (*corev1.Pod, *corev1.PersistentVolumeClaim, error) {
	pod, err := c.podIn(ctx, held)
	if pod != nil || err != nil {
		return pod, nil, err
	}
	claim, err := c.claimIn(ctx, held)
	if !isKeptBy(claim, held) {
		claim = nil
	}
	return nil, claim, err
}

// podIn returns the pod that a holding names; nil if that is gone.
func (c *cluster) podIn(ctx context.Context, held *coordinationv1.Lease) (*corev1.Pod, error) {
	for _, owner := range held.OwnerReferences {
		if owner.Kind == claimKind {
			continue
		}
		pod, err := c.get(ctx, owner.Name)
		if err == nil && pod.UID == owner.UID {
			return pod, nil
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return pod, err
		}
	}
	return nil, nil
}

// isHeldBy reports whether a pod says that it belongs to a holding.
func isHeldBy(pod *corev1.Pod, held *coordinationv1.Lease) bool {
	return pod.Annotations[podmeta.AnnotationHolding] == string(held.UID)
}

// takeBack deletes a holding that does not count. The launch that made it may only be slow, so
// the pod that waits for it goes first, which then nobody can take any more. Any other pod stays,
// whoever wrote its name into the holding. A claim that the holding names goes with the pod.
func (c *cluster) takeBack(ctx context.Context, held *coordinationv1.Lease, pod *corev1.Pod) error {
	if pod != nil && pod.Labels[podmeta.LabelManagedBy] == podmeta.ManagedByPool {
		if err := c.delete(ctx, pod, pod.ResourceVersion); err != nil {
			return ignoreChange(err) // it was taken after all, say
		}
	}
	return c.dropHolding(ctx, held)
}

// dropHolding deletes a holding, and no other of its name.
func (c *cluster) dropHolding(ctx context.Context, held *coordinationv1.Lease) error {
	err := c.holdings().Delete(ctx, held.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &held.UID}})
	return c.apiError(held.Name, ignoreChange(err))
}

// dropHoldingOf deletes the holding of a pod that was taken and is going, so that the id can
// get another at once. Otherwise the cluster does that, in its own time. It stays if the files do.
func (c *cluster) dropHoldingOf(ctx context.Context, pod *corev1.Pod) error {
	now, err := c.get(ctx, pod.Name)
	if err != nil && !apierrors.IsNotFound(err) || err == nil && now.UID == pod.UID && now.DeletionTimestamp == nil {
		return err
	}
	if kept, _, err := c.heldFiles(ctx, pod.Annotations[podmeta.AnnotationID]); kept != nil || err != nil {
		return err
	}
	return c.dropHolding(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Name: holdingName(pod.Annotations[podmeta.AnnotationID]), UID: types.UID(pod.Annotations[podmeta.AnnotationHolding]),
	}})
}

// ignoreChange returns nil for an object that is gone, or is no longer what it was.
func ignoreChange(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// hold makes the holding by which the id is to get a pod. The error says that it already exists
// if another launch of the id was first. If the answer is lost, what may have been made does not
// count, and goes with the pod.
func (c *cluster) hold(ctx context.Context, held *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	made, err := c.holdings().Create(ctx, held, metav1.CreateOptions{})
	return made, c.apiError(podmeta.NameOf(held.Annotations[podmeta.AnnotationID]), err)
}

// newHolding returns the holding for a pod.
func (c *cluster) newHolding(id string, pod *corev1.Pod) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name:            holdingName(id),
			Labels:          map[string]string{podmeta.LabelManagedBy: podmeta.ManagedBy},
			Annotations:     map[string]string{podmeta.AnnotationID: id},
			OwnerReferences: ownedBy(pod),
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new(c.owner + "/" + strings.ToLower(rand.Text()[:8])),
			AcquireTime:    new(metav1.NowMicro()),
		},
	}
}

func ownedBy(pod *corev1.Pod) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}}
}
