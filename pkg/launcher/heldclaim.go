package launcher

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// The pods of a pool with kept workspaces have generic ephemeral volumes: the cluster makes a
// claim for each pod, and deletes it with the pod. A node's kubelet insists that the pod stays the
// claim's controller. But a claim with a second owner outlives the pod. So the holding by which an
// id gets such a pod names its claim, too, and the claim gets the holding as its second owner once
// the pod is taken. From then on each owns the other: both stay until one is deleted. Whoever finds
// the id's holding finds its files, and no other launch can make one meanwhile.

// heldForm is the form of a holding that has a claim. Orchestrators that know form 1 only believe
// that a holding ends with its pod, and would make the sandbox anew beside its files.
const heldForm = "2"

// ephemeralVolume returns the volume at the workdir of the pods of a pool with kept workspaces.
func (w Workspace) ephemeralVolume(pool string) corev1.Volume {
	return corev1.Volume{Name: workspaceName, VolumeSource: corev1.VolumeSource{
		Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
			ObjectMeta: metav1.ObjectMeta{
				Labels:      map[string]string{podmeta.LabelManagedBy: podmeta.ManagedByPool, podmeta.LabelPool: pool},
				Annotations: w.filesIn(),
			},
			Spec: w.claimSpec(),
		}},
	}}
}

// holdClaim makes a holding, which is about to be created, hold the claim of the pod, too. It has
// the claim's note, so that whoever needs the files can finish what the launch has begun. The error
// is an *unusableError if the pod has no claim that can be kept.
func (c *cluster) holdClaim(ctx context.Context, held *coordinationv1.Lease, spec *Spec, pod *corev1.Pod) error {
	claim, err := c.claim(ctx, ephemeralClaim(pod))
	switch {
	case apierrors.IsNotFound(err):
		return &unusableError{errClaimGone}
	case err != nil:
		return err
	case claim.DeletionTimestamp != nil || !metav1.IsControlledBy(claim, pod) || claim.Annotations[podmeta.AnnotationID] != "":
		return &unusableError{fmt.Errorf("its claim %s is not for it alone", claim.Name)}
	}
	again, err := c.podFor(ctx, spec)
	if err == nil {
		err = c.checkMade(again)
	}
	if err != nil {
		return err
	}
	mountClaim(again, claim)
	note, err := c.writeNote(ctx, c.subjectOf(claim.Name, string(claim.UID), spec.ID), time.Now().UnixNano(), again)
	held.Annotations[podmeta.AnnotationPod] = note
	held.Annotations[podmeta.AnnotationForm] = heldForm
	held.OwnerReferences = append(held.OwnerReferences, metav1.OwnerReference{
		APIVersion: "v1", Kind: claimKind, Name: claim.Name, UID: claim.UID,
	})
	return err
}

const claimKind = "PersistentVolumeClaim"

// claimIn returns the claim that a holding names, in whatever state; nil if it names none, or
// that is gone.
func (c *cluster) claimIn(ctx context.Context, held *coordinationv1.Lease) (*corev1.PersistentVolumeClaim, error) {
	for _, owner := range held.OwnerReferences {
		if owner.Kind != claimKind {
			continue
		}
		claim, err := c.claim(ctx, owner.Name)
		if apierrors.IsNotFound(err) || claim != nil && claim.UID != owner.UID {
			return nil, nil
		}
		return claim, err
	}
	return nil, nil
}

// isKeptBy reports whether a claim belongs to the sandbox of a holding, so that it stays when its
// pod goes.
func isKeptBy(claim *corev1.PersistentVolumeClaim, held *coordinationv1.Lease) bool {
	return claim != nil && claim.DeletionTimestamp == nil &&
		claim.Annotations[podmeta.AnnotationID] == held.Annotations[podmeta.AnnotationID] && isOwnedBy(claim, held)
}

func isOwnedBy(claim *corev1.PersistentVolumeClaim, held *coordinationv1.Lease) bool {
	for _, owner := range claim.OwnerReferences {
		if owner.UID == held.UID {
			return true
		}
	}
	return false
}

// heldClaim returns the claim that the id holds, if it is kept and the pod that it was made for is
// gone; nil if there is none. With the pod the error is errAnotherLaunch: whoever asks has looked
// for a pod before. A claim of a newer form, or of such a holding, comes with ErrNewer.
func (c *cluster) heldClaim(ctx context.Context, id string) (*corev1.PersistentVolumeClaim, error) {
	claim, pod, err := c.heldFiles(ctx, id)
	if err == nil && pod != nil {
		return nil, errAnotherLaunch
	}
	return claim, err
}

// heldFiles returns the claim that the id holds, if it is kept, and the pod that it was made for,
// which may be gone. The order matters: a claim is kept before anybody deletes the pod and counts
// on the files.
func (c *cluster) heldFiles(ctx context.Context, id string) (*corev1.PersistentVolumeClaim, *corev1.Pod, error) {
	held, err := c.holdings().Get(ctx, holdingName(id), metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && held.Annotations[podmeta.AnnotationPod] == "" {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, c.apiError(podmeta.NameOf(id), err)
	}
	pod, podErr := c.podIn(ctx, held)
	claim, err := c.claimIn(ctx, held)
	if !isKeptBy(claim, held) {
		return nil, nil, err
	}
	if err = cmp.Or(c.checkForm(podmeta.NameOf(id), "its holding", held), podErr, err); err == nil {
		err = c.checkOurs(claim, id)
	}
	return claim, pod, err
}

// keepFilesOf makes the claim of a pod that was taken out of a pool outlive it.
func (c *cluster) keepFilesOf(ctx context.Context, pod *corev1.Pod) (*corev1.PersistentVolumeClaim, error) {
	held, err := c.holdings().Get(ctx, holdingName(pod.Annotations[podmeta.AnnotationID]), metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && !isHeldBy(pod, held) {
		return nil, c.podError(pod, ErrGone, "", "another launch has replaced it")
	}
	if err != nil {
		return nil, c.apiError(pod.Name, err)
	}
	return c.keepFiles(ctx, held, pod)
}

// keepFiles makes the claim of a holding the sandbox's own, so that it outlives the pod that was
// taken. If it is gone, or about to go, the error is ErrGone. Who may write Leases can name any
// claim in the holding: if that is not the pod's, the error is ErrNotOurs.
func (c *cluster) keepFiles(ctx context.Context, held *coordinationv1.Lease, pod *corev1.Pod) (*corev1.PersistentVolumeClaim, error) {
	for {
		claim, err := c.claimIn(ctx, held)
		switch {
		case err != nil, isKeptBy(claim, held):
			return claim, err
		case claim == nil || claim.DeletionTimestamp != nil:
			return nil, c.podError(pod, ErrGone, "", errClaimGone.Error())
		case !isMadeFor(claim, pod):
			return nil, c.podError(claim, ErrNotOurs, "", "the Lease of the sandbox names it, and it is not the claim of pod "+pod.Name)
		}
		patch, err := json.Marshal(keepingPatch(claim, held, pod))
		if err != nil {
			return nil, err
		}
		claim, err = c.api.CoreV1().PersistentVolumeClaims(c.namespace).Patch(ctx, claim.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		if err = c.apiError(pod.Name, err); !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) { // else look again
			return claim, err
		}
	}
}

// isMadeFor reports whether the cluster has made a claim for a pod out of a pool, and it is no
// other sandbox's.
func isMadeFor(claim *corev1.PersistentVolumeClaim, pod *corev1.Pod) bool {
	id := claim.Annotations[podmeta.AnnotationID]
	return claim.Name == ephemeralClaim(pod) && metav1.IsControlledBy(claim, pod) && (id == "" || id == pod.Annotations[podmeta.AnnotationID])
}

// keepingPatch adds to a claim what a claim of the id's own name has from its creation, and the
// holding as its second owner.
func keepingPatch(claim *corev1.PersistentVolumeClaim, held *coordinationv1.Lease, pod *corev1.Pod) map[string]any {
	labels := map[string]any{podmeta.LabelPool: nil}
	for name, value := range pod.Labels {
		labels[name] = value
	}
	return map[string]any{"metadata": map[string]any{
		"uid": claim.UID, "resourceVersion": claim.ResourceVersion, // preconditions
		"labels":          labels,
		"annotations":     claimAnnotations(pod, held.Annotations[podmeta.AnnotationPod]),
		"ownerReferences": []metav1.OwnerReference{{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Name: held.Name, UID: held.UID}},
	}}
}

// dropHoldingsOf deletes the holding of a claim that is being deleted, so that the id can get
// another at once. Otherwise the cluster does that, in its own time.
func (c *cluster) dropHoldingsOf(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	name := holdingName(claim.Annotations[podmeta.AnnotationID])
	var errs []error
	for _, owner := range claim.OwnerReferences {
		if owner.Kind == "Lease" && owner.Name == name {
			errs = append(errs, c.dropHolding(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name, UID: owner.UID}}))
		}
	}
	return errors.Join(errs...)
}
