package launcher

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podagent/podagent/internal/delay"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// errClaimGone says that the claim of a pod was deleted before the pod was made, so that the
// pod can't run.
var errClaimGone = errors.New("the claim of its workspace is gone")

// claimOf returns the claim for the workspace of a pod that is about to be created.
// Its note says how the pod is made, for [Kubernetes.Resume].
func (c *cluster) claimOf(ctx context.Context, w Workspace, pod *corev1.Pod, generation int64) (*corev1.PersistentVolumeClaim, error) {
	id := pod.Annotations[podmeta.AnnotationID]
	note, err := c.writeNote(ctx, c.subjectOf(pod.Name, "", id), generation, pod)
	if err != nil {
		return nil, err
	}
	annotations := claimAnnotations(pod, note)
	maps.Copy(annotations, w.filesIn())
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace, Labels: pod.Labels, Annotations: annotations},
		Spec:       w.claimSpec(),
	}, nil
}

// claimAnnotations returns those of a claim that the launch of a pod makes or keeps.
func claimAnnotations(pod *corev1.Pod, note string) map[string]string {
	annotations := map[string]string{
		podmeta.AnnotationID:      pod.Annotations[podmeta.AnnotationID],
		podmeta.AnnotationCreated: pod.Annotations[podmeta.AnnotationCreated],
		podmeta.AnnotationPod:     note,
	}
	copyLabels(annotations, pod.Annotations)
	return annotations
}

// keepWorkspace creates the claim for the workspace of a pod that is about to be
// created, or takes the existing one and notes that in the pod.
func (c *cluster) keepWorkspace(ctx context.Context, spec *Spec, pod *corev1.Pod) error {
	for {
		there, err := c.heldClaim(ctx, spec.ID)
		if there == nil && err == nil {
			mountWorkspace(pod, claimVolume(workspaceName, pod.Name))
			if err := c.newClaim(ctx, spec.Pod.Workspace, pod); !apierrors.IsAlreadyExists(err) {
				return err
			}
			there, err = c.claim(ctx, pod.Name)
		}
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return err
		case there.DeletionTimestamp != nil:
			if err := c.awaitNoClaim(ctx, there); err != nil {
				return err
			}
		case lacksStorage(there) && c.checkOurs(there, pod.Annotations[podmeta.AnnotationID]) == nil: // another launch removes it, or was killed before that
			return c.noStorageClass(there)
		default:
			if drift := spec.Pod.Workspace.driftOf(there); len(drift) > 0 && spec.Take.OnDrift == DriftError {
				return c.podError(pod, ErrDrift, "", joined(drift))
			}
			mountClaim(pod, there)
			if err := c.takeForLaunch(ctx, there, pod); !endedSince(err) {
				return err
			}
		}
	}
}

// newClaim creates the claim for the workspace of a pod that is about to be created.
// If this machine's clock is far from the API server's, the note of the creation would
// not be believed: see isFromCreation. Then the claim gets another, which has its UID.
func (c *cluster) newClaim(ctx context.Context, w Workspace, pod *corev1.Pod) error {
	generation := time.Now().UnixNano()
	claim, err := c.claimOf(ctx, w, pod, generation)
	if err != nil {
		return err
	}
	made, err := c.makeClaim(ctx, claim)
	if err != nil || isFromCreation(generation, made) {
		return err
	}
	if err := c.notePod(ctx, pod, generation); err != nil {
		return errors.Join(err, c.dropUnused(ctx, pod))
	}
	return nil
}

// endedSince reports whether a claim could not be taken because it was deleted
// after it was seen.
func endedSince(err error) bool {
	return errors.Is(err, ErrNotKept) || apierrors.IsNotFound(err) || apierrors.IsConflict(err)
}

// takeClaim marks the claim as used, from a time on, for a new pod of a launch that did
// not create the claim. If its last pod belonged to another identity, the claim stays
// with that one. That prevents accidents only: users who may create pods can mount the
// claim anyway.
func (c *cluster) takeClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim, id string, now time.Time) error {
	if err := c.checkOurs(claim, id); err != nil {
		return err
	}
	if err := c.checkSigner(ctx, claim); err != nil {
		return err
	}
	return c.markClaim(ctx, claim, now, podmeta.AnnotationAdopted, podmeta.AnnotationResumed)
}

// markClaim marks the claim as used by a launch that did not create it. If the
// creating launch fails after all, podmeta.AnnotationAdopted keeps it from deleting
// the claim. podmeta.AnnotationResumed, written for a new pod, protects the claim
// when an older pod is removed.
func (c *cluster) markClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim, now time.Time, annotations ...string) error {
	values := map[string]string{}
	for _, annotation := range annotations {
		values[annotation] = timeText(now)
	}
	claim, err := c.annotateClaim(ctx, claim.Name, metav1.Preconditions{UID: &claim.UID}, values)
	if err == nil && claim.DeletionTimestamp != nil {
		return c.podError(claim, ErrNotKept, "", "its claim is being deleted")
	}
	return err
}

// annotateClaim changes annotations of a claim, if that keeps the preconditions. An
// empty UID is none. A claim of another UID alone is not found: it would be gone if no
// other had its name by now, as in a pool, where the StatefulSet makes it again.
func (c *cluster) annotateClaim(ctx context.Context, name string, only metav1.Preconditions, annotations map[string]string) (*corev1.PersistentVolumeClaim, error) {
	meta := map[string]any{"annotations": annotations}
	if only.UID != nil && *only.UID != "" {
		meta["uid"] = *only.UID
	}
	if only.ResourceVersion != nil {
		meta["resourceVersion"] = *only.ResourceVersion
	}
	patch, err := json.Marshal(map[string]any{"metadata": meta})
	if err != nil {
		return nil, err
	}
	claim, err := c.api.CoreV1().PersistentVolumeClaims(c.namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	if only.ResourceVersion == nil && wasReplaced(err) {
		return nil, apierrors.NewNotFound(corev1.Resource("persistentvolumeclaims"), name)
	}
	return claim, c.apiError(name, err)
}

// claim returns a claim; one of a newer form with ErrNewer.
func (c *cluster) claim(ctx context.Context, name string) (*corev1.PersistentVolumeClaim, error) {
	claim, err := c.api.CoreV1().PersistentVolumeClaims(c.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, c.apiError(name, err)
	}
	return claim, c.checkForm(name, "its claim", claim)
}

// removeClaim deletes the claim with its files, and returns when it is gone. It
// leaves a claim that has been taken for a new pod since it was seen. If a launch took the
// claim before and makes its pod only now, one of the two sees the other: see checkAfterwards.
func (c *cluster) removeClaim(ctx context.Context, seen *corev1.PersistentVolumeClaim) error {
	_, err := c.removeClaimIf(ctx, seen, func(*corev1.PersistentVolumeClaim) bool { return true })
	return err
}

// removeClaimIf is removeClaim for a claim that goes only if its last state is such. It reports whether
// it has deleted it.
func (c *cluster) removeClaimIf(ctx context.Context, seen *corev1.PersistentVolumeClaim, isSuch func(*corev1.PersistentVolumeClaim) bool) (bool, error) {
	for claim := seen; ; {
		if claim.UID != seen.UID || claim.Annotations[podmeta.AnnotationResumed] != seen.Annotations[podmeta.AnnotationResumed] || !isSuch(claim) {
			return false, nil
		}
		err := c.deleteClaim(ctx, claim, metav1.Preconditions{UID: &claim.UID, ResourceVersion: &claim.ResourceVersion})
		switch {
		case err == nil:
			return true, cmp.Or(c.removeUserOf(ctx, seen), c.awaitNoClaim(ctx, seen))
		case !apierrors.IsConflict(err):
			return false, err
		}
		claim, err = c.claim(ctx, seen.Name) // controllers may have changed it
		switch {
		case apierrors.IsNotFound(err):
			return false, nil
		case err != nil:
			return false, err
		}
	}
}

// removeUserOf removes a pod that a launch has made for a claim which is being deleted, or gone.
func (c *cluster) removeUserOf(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	pod, err := c.get(ctx, userOf(claim))
	if apierrors.IsNotFound(err) || err == nil && claimName(pod) != claim.Name {
		return nil
	}
	if err != nil {
		return err
	}
	now, err := c.claim(ctx, claim.Name)
	switch {
	case err == nil && now.UID != claim.UID: // the pod has another claim by now
		return nil
	case err != nil && !apierrors.IsNotFound(err):
		return err
	}
	return c.remove(ctx, pod)
}

// checkClaim returns errClaimGone if the pod's own claim is gone, or about to go.
func (c *cluster) checkClaim(ctx context.Context, pod *corev1.Pod) error {
	if !ownClaim(pod) {
		return nil
	}
	claim, err := c.claim(ctx, claimName(pod))
	if apierrors.IsNotFound(err) || err == nil && claim.DeletionTimestamp != nil {
		return errClaimGone
	}
	return err
}

func (c *cluster) deleteClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim, only metav1.Preconditions) error {
	err := c.api.CoreV1().PersistentVolumeClaims(c.namespace).Delete(ctx, claim.Name, metav1.DeleteOptions{Preconditions: &only})
	if err == nil {
		c.log.Info("deleted claim", "sandbox", claim.Annotations[podmeta.AnnotationID], "claim", claim.Name, "uid", claim.UID)
		return c.dropHoldingsOf(ctx, claim)
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return c.apiError(claim.Name, err)
}

// awaitNoClaim returns once this claim is gone.
func (c *cluster) awaitNoClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	ctx, cancel := context.WithTimeout(ctx, cleanupTimeout)
	defer cancel()
	for wait := claimPoll / 8; ; wait = min(2*wait, claimPoll) {
		now, err := c.claim(ctx, claim.Name)
		if apierrors.IsNotFound(err) || err == nil && now.UID != claim.UID {
			return nil
		}
		if err != nil {
			return err
		}
		delay.For(ctx, wait)
		if ctx.Err() != nil {
			return fmt.Errorf("claim %s/%s is still being deleted, as long as a pod uses it or it has finalizers: %w", c.namespace, claim.Name, context.Cause(ctx))
		}
	}
}

// dropClaim deletes the claim that was created for a pod which is given up, unless
// it existed before or has the annotation unless: podmeta.AnnotationAdopted if any
// use counts, podmeta.AnnotationResumed if only a new pod does. It returns the
// deleted claim, or nil.
func (c *cluster) dropClaim(ctx context.Context, pod *corev1.Pod, unless string) (*corev1.PersistentVolumeClaim, error) {
	if !ownClaim(pod) {
		return nil, nil
	}
	for {
		claim, err := c.claimOfPod(ctx, pod)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		_, taken := claim.Annotations[unless]
		if taken || claim.Annotations[podmeta.AnnotationCreated] != pod.Annotations[podmeta.AnnotationCreated] {
			return nil, nil
		}
		err = c.deleteClaim(ctx, claim, metav1.Preconditions{UID: &claim.UID, ResourceVersion: &claim.ResourceVersion})
		if !apierrors.IsConflict(err) { // a conflict means that it has changed
			return claim, err
		}
	}
}

// dropUnused is dropClaim for a launch that failed.
func (c *cluster) dropUnused(ctx context.Context, pod *corev1.Pod) error {
	_, err := c.dropClaim(ctx, pod, podmeta.AnnotationAdopted)
	return err
}

// claims returns the claims that belong to sandboxes. It returns none if the caller
// may not list them.
func (c *cluster) claims(ctx context.Context) ([]corev1.PersistentVolumeClaim, error) {
	list, err := c.api.CoreV1().PersistentVolumeClaims(c.namespace).List(ctx, metav1.ListOptions{LabelSelector: ours})
	if isRefusal(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// summaryOfClaim describes a sandbox that has no pod.
func summaryOfClaim(claim *corev1.PersistentVolumeClaim) Summary {
	s := Summary{
		ID: claim.Annotations[podmeta.AnnotationID], State: Paused, CreatedAt: claim.CreationTimestamp.UTC(),
		Labels: podmeta.LabelsIn(claim.Annotations), Expires: filesEnd(claim),
	}
	if claim.DeletionTimestamp != nil {
		s.State = Terminating
	}
	pod, err := shownPod(claim)
	if err == nil {
		s.Workdir = agentContainer(pod).WorkingDir
		s.Heartbeat = cmp.Or(heartbeatOf(pod), s.CreatedAt)
	}
	s.usesOf(pod, claim)
	return s
}

// again returns the pod as it is created anew.
func again(pod *corev1.Pod, now time.Time) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Annotations = maps.Clone(pod.Annotations)
	delete(pod.Annotations, podmeta.AnnotationAdopted)
	for _, name := range []string{podmeta.AnnotationCreated, podmeta.AnnotationHeartbeat, podmeta.AnnotationResumed} {
		pod.Annotations[name] = timeText(now)
	}
	renewLife(pod, now)
	return pod
}
