package launcher

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// This file says which claim is a sandbox's own. Most have the name that is made from the id,
// and so has every pod that is made for them. A sandbox in a pod of a pool has the claim that the
// cluster has made for that pod (heldclaim.go); pods that are made for its files later have the
// id's own name, and mount the claim by its name.

// claimName returns the name of the claim that is the workspace of a sandbox's pod, and is the
// sandbox's own; empty if there is none. A pod that waits in a pool is no sandbox's yet.
func claimName(pod *corev1.Pod) string {
	isSandbox := pod.Labels[podmeta.LabelManagedBy] == podmeta.ManagedBy
	for _, v := range pod.Spec.Volumes {
		switch {
		case v.Name != workspaceName:
		case v.PersistentVolumeClaim != nil && (isSandbox || v.PersistentVolumeClaim.ClaimName == pod.Name):
			return v.PersistentVolumeClaim.ClaimName
		case v.Ephemeral != nil && isSandbox:
			return ephemeralClaim(pod)
		}
	}
	return ""
}

// ephemeralClaim returns the name of the claim that the cluster makes for the workspace of a pod
// out of a pool.
func ephemeralClaim(pod *corev1.Pod) string { return pod.Name + "-" + workspaceName }

// ownClaim reports whether the pod mounts a claim as the sandbox's own. claimOfPod says whose it is.
func ownClaim(pod *corev1.Pod) bool { return claimName(pod) != "" }

// claimOfPod returns the claim of a pod that has one of its own. Who may create pods can name any
// claim in them, so one that has not the pod's name must say that it belongs to the pod or its
// sandbox: otherwise the error is ErrNotOurs.
func (c *cluster) claimOfPod(ctx context.Context, pod *corev1.Pod) (*corev1.PersistentVolumeClaim, error) {
	claim, err := c.claim(ctx, claimName(pod))
	if err != nil || claim.Name == pod.Name || metav1.IsControlledBy(claim, pod) {
		return claim, err
	}
	return claim, c.checkOurs(claim, pod.Annotations[podmeta.AnnotationID])
}

// keptClaimOf is claimOfPod for a caller that relies on the files: they outlive the pod, even if
// the launch that took it out of a pool was killed before it saw to that.
func (c *cluster) keptClaimOf(ctx context.Context, pod *corev1.Pod) (*corev1.PersistentVolumeClaim, error) {
	claim, err := c.claimOfPod(ctx, pod)
	if err != nil || claim.DeletionTimestamp != nil || !metav1.IsControlledBy(claim, pod) {
		return claim, err
	}
	return c.keepFilesOf(ctx, pod)
}

// adoptClaim marks the claim of a pod as used by somebody else than the launch that made it.
func (c *cluster) adoptClaim(ctx context.Context, pod *corev1.Pod) error {
	claim, err := c.keptClaimOf(ctx, pod)
	if err != nil {
		return err
	}
	if err := c.forgetFilesEnd(ctx, claim); err != nil {
		return err
	}
	return c.markClaim(ctx, claim, time.Now(), podmeta.AnnotationAdopted)
}

// pausedClaim returns the claim of a sandbox that has no pod. If there is none, or the
// caller lacks the permission to see it, the error is ErrNotFound. One of a newer form comes
// with ErrNewer.
func (c *cluster) pausedClaim(ctx context.Context, id string) (*corev1.PersistentVolumeClaim, error) {
	claim, err := c.heldClaim(ctx, id)
	if claim != nil || err != nil {
		return claim, err
	}
	return c.namedClaim(ctx, id)
}

// namedClaim is pausedClaim for the claim of the id's own name.
func (c *cluster) namedClaim(ctx context.Context, id string) (*corev1.PersistentVolumeClaim, error) {
	claim, err := c.claim(ctx, podmeta.NameOf(id))
	if apierrors.IsNotFound(err) || errors.Is(err, ErrForbidden) || err == nil && claim.DeletionTimestamp != nil {
		return nil, ErrNotFound
	}
	if err != nil {
		return claim, err
	}
	return claim, c.checkOurs(claim, id)
}

// leftClaim returns the claim of the id's own name beside another that counts; nil if there is
// none. A launch that was killed has left it.
func (c *cluster) leftClaim(ctx context.Context, id, counts string) (*corev1.PersistentVolumeClaim, error) {
	if counts == podmeta.NameOf(id) {
		return nil, nil
	}
	left, err := c.namedClaim(ctx, id)
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrNotOurs) {
		return nil, nil
	}
	return left, err
}

// userOf returns the name of the pods that are made for a claim.
func userOf(claim *corev1.PersistentVolumeClaim) string {
	if id, ok := claim.Annotations[podmeta.AnnotationID]; ok {
		return podmeta.NameOf(id)
	}
	return claim.Name
}

// heldFirst sorts claims so that one of the id's own name, which a launch that was killed may have
// left, comes after the one that the id holds.
func heldFirst(a, b corev1.PersistentVolumeClaim) int {
	named := func(claim *corev1.PersistentVolumeClaim) int {
		if claim.Name == userOf(claim) {
			return 1
		}
		return 0
	}
	return named(&a) - named(&b)
}
