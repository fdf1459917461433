package launcher

import (
	"context"
	"errors"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// Sweep removes what is over of a sandbox, and reports whether that was anything: a pod that has
// ended, has outlived its Expires by a minute, or does not run and had no heartbeat for
// DefaultStaleAfter; and, a day after the Expires of such a pod, the files that it left.
func (k *Kubernetes) Sweep(ctx context.Context, id string) (bool, error) {
	c, ctx, err := k.cluster(ctx)
	if err != nil {
		return false, wrap("sweeping", id, err)
	}
	done, err := c.sweepOne(ctx, id)
	return done, wrap("sweeping", id, err)
}

func (c *cluster) sweepOne(ctx context.Context, id string) (bool, error) {
	pod, err := c.lookup(ctx, id)
	switch {
	case errors.Is(err, ErrNotFound):
		return false, nil
	case errors.Is(err, ErrPaused):
		return c.dropOverdueFiles(ctx, id)
	case err != nil:
		return false, err
	}
	if over, err := c.isOver(ctx, pod); !over || err != nil {
		return false, err
	}
	if err := c.noteFilesEnd(ctx, pod); err != nil {
		return false, err
	}
	return c.deleteUnchanged(ctx, pod)
}

// isOver reports whether nobody can need the pod any more.
func (c *cluster) isOver(ctx context.Context, pod *corev1.Pod) (bool, error) {
	ends := expiry(pod)
	switch {
	case pod.DeletionTimestamp != nil:
		return false, nil
	case ended(pod), !ends.IsZero() && time.Since(ends) > overdueTime:
		return true, nil
	case isRunning(pod):
		return false, nil
	}
	beats, err := c.heartbeats(ctx, *pod)
	return err == nil && time.Since(beats.of(pod)) > DefaultStaleAfter, err
}

// noteFilesEnd notes in the claim of a pod that is about to go when its sandbox ends. As in a pause,
// the launch that made the claim leaves it alone from now on.
func (c *cluster) noteFilesEnd(ctx context.Context, pod *corev1.Pod) error {
	if !ownClaim(pod) {
		return nil
	}
	claim, err := c.keptClaimOf(ctx, pod)
	if apierrors.IsNotFound(err) {
		return nil // the files are gone
	}
	if err != nil {
		return err
	}
	notes := map[string]string{podmeta.AnnotationAdopted: timeText(time.Now())}
	if ends := expiry(pod); !ends.IsZero() {
		notes[podmeta.AnnotationFilesEnd] = timeText(ends) + " " + claim.Annotations[podmeta.AnnotationResumed]
	}
	_, err = c.annotateClaim(ctx, claim.Name, metav1.Preconditions{UID: &claim.UID}, notes)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// filesEnd returns when the sandbox of a claim without a pod ends; zero for never. What was noted of
// an earlier pod does not count: later ones have times of their own.
func filesEnd(claim *corev1.PersistentVolumeClaim) time.Time {
	ends, resumed, _ := strings.Cut(claim.Annotations[podmeta.AnnotationFilesEnd], " ")
	if resumed != claim.Annotations[podmeta.AnnotationResumed] {
		return time.Time{}
	}
	t, _ := time.Parse(time.RFC3339Nano, ends)
	return t
}

// forgetFilesEnd lets the files in a claim stay, if they were to go. If they are just going, the error
// is ErrNotKept.
func (c *cluster) forgetFilesEnd(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	if claim.Annotations[podmeta.AnnotationFilesEnd] == "" {
		return nil
	}
	now, err := c.annotateClaim(ctx, claim.Name, metav1.Preconditions{UID: &claim.UID}, map[string]string{podmeta.AnnotationFilesEnd: ""})
	if err == nil && now.DeletionTimestamp != nil {
		err = c.podError(claim, ErrNotKept, "", "its claim is being deleted")
	}
	return err
}

// dropOverdueFiles removes the files of a sandbox without a pod whose end was long ago, unless a
// launch takes them or a pause keeps them meanwhile, and reports whether it did.
func (c *cluster) dropOverdueFiles(ctx context.Context, id string) (bool, error) {
	claim, err := c.pausedClaim(ctx, id)
	if errors.Is(err, ErrNotFound) || errors.Is(err, errAnotherLaunch) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !isOverdue(claim) {
		return false, nil
	}
	return c.discardFiles(ctx, id, claim, isOverdue)
}

// isOverdue reports whether the files in a claim without a pod have stayed for long enough.
func isOverdue(claim *corev1.PersistentVolumeClaim) bool {
	ends := filesEnd(claim)
	return !ends.IsZero() && time.Since(ends) >= filesStay
}
