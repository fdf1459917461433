package launcher

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// A note that was replaced is signed, too. A user who may patch claims must not be able to
// put it back. So the generation of its successor is kept outside of the claim: in a Lease,
// which orchestrators may write. A claim whose note was never replaced has none.

// floorName returns the name of a claim's Lease. It differs from the names of sandboxes,
// which have no dots.
func floorName(claim *corev1.PersistentVolumeClaim) string { return claim.Name + ".note" }

// floor returns the lowest generation of a claim's note that is believed, and the Lease
// that says so; nil if there is none.
func (c *cluster) floor(ctx context.Context, claim *corev1.PersistentVolumeClaim) (int64, *coordinationv1.Lease, error) {
	lease, err := c.api.CoordinationV1().Leases(c.namespace).Get(ctx, floorName(claim), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return 0, nil, nil
	case err != nil:
		return 0, nil, c.apiError(claim.Name, err)
	}
	if !belongsTo(lease, claim) || lease.Spec.RenewTime == nil { // its claim is gone, and it will be soon
		return 0, lease, nil
	}
	at := lease.Spec.RenewTime.Time
	if time.Until(at) > floorAhead { // nanoseconds end in 2262
		return 0, nil, fmt.Errorf("the Lease %s/%s says that the note of claim %s was replaced at %s, which is in the future: if the clocks are right, delete the Lease, and launch the sandbox again", c.namespace, lease.Name, claim.Name, at.Format(time.RFC3339))
	}
	return max(0, at.UnixMicro()) * int64(time.Microsecond), lease, nil
}

func belongsTo(lease *coordinationv1.Lease, claim *corev1.PersistentVolumeClaim) bool {
	return len(lease.OwnerReferences) == 1 && lease.OwnerReferences[0].UID == claim.UID
}

// raiseFloor makes a generation the lowest that is believed, unless a higher one is.
func (c *cluster) raiseFloor(ctx context.Context, claim *corev1.PersistentVolumeClaim, generation int64) error {
	for {
		now, lease, err := c.floor(ctx, claim)
		if err != nil || now >= generation {
			return err
		}
		done, err := c.writeFloor(ctx, floorLease(claim, generation), lease, claim)
		if done || ctx.Err() != nil || err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return c.apiError(claim.Name, err)
		}
	}
}

// writeFloor makes one step from the Lease that is there, which may be nil, to the wanted
// one, and reports whether that was the last step.
func (c *cluster) writeFloor(ctx context.Context, wanted, there *coordinationv1.Lease, claim *corev1.PersistentVolumeClaim) (done bool, err error) {
	leases := c.api.CoordinationV1().Leases(c.namespace)
	switch {
	case there == nil:
		_, err = leases.Create(ctx, wanted, metav1.CreateOptions{})
		return err == nil, err
	case !belongsTo(there, claim): // the cluster is about to delete it, by its UID
		return false, leases.Delete(ctx, there.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &there.UID}})
	}
	there.Spec = wanted.Spec
	_, err = leases.Update(ctx, there, metav1.UpdateOptions{}) // fails if it has changed
	return err == nil, err
}

// floorLease returns the Lease for a claim, which the cluster deletes with it. The time
// is cut to microseconds.
func floorLease(claim *corev1.PersistentVolumeClaim, generation int64) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name:            floorName(claim),
			Labels:          map[string]string{podmeta.LabelManagedBy: podmeta.ManagedBy},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "PersistentVolumeClaim", Name: claim.Name, UID: claim.UID}},
		},
		Spec: coordinationv1.LeaseSpec{RenewTime: new(metav1.NewMicroTime(generationTime(generation)))},
	}
}

// notedPodNow returns the pod to make when the sandbox of a claim is resumed, unless its
// note was replaced by another and then put back.
func (c *cluster) notedPodNow(ctx context.Context, claim *corev1.PersistentVolumeClaim, id string) (*corev1.Pod, error) {
	pod, generation, err := c.notedPod(ctx, claim, id)
	if err != nil {
		return nil, err
	}
	floor, _, err := c.floor(ctx, claim)
	if err == nil && generation < floor {
		err = c.unsigned(claim, fmt.Errorf("it is of %s, and was replaced at %s, as Lease %s says", generationTime(generation).Format(time.RFC3339Nano), generationTime(floor).Format(time.RFC3339Nano), floorName(claim)))
	}
	return pod, err
}
