package launcher

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// takeLease makes this orchestrator the exclusive owner of the sandbox, until
// it is closed or the lease is lost, when every further call fails.
func (c *cluster) takeLease(ctx context.Context, s *Sandbox) error {
	lease, err := c.claim(ctx, s.target)
	if err != nil {
		return err
	}
	// What is done last at Close is added first.
	s.atClose(func(ctx context.Context) error { return c.release(ctx, lease.Name) })
	s.background(func(ctx context.Context) {
		if err := c.renew(ctx, s.target, lease); err != nil {
			s.target.kill(err)
		}
	})
	return nil
}

// claim makes or takes the lease of the pod.
func (c *cluster) claim(ctx context.Context, t *target) (*coordinationv1.Lease, error) {
	leases := c.api.CoordinationV1().Leases(c.namespace)
	for {
		lease, err := leases.Get(ctx, t.pod.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			lease, err = leases.Create(ctx, c.newLease(t), metav1.CreateOptions{})
		case err != nil:
		case c.isHeld(lease, t):
			return nil, c.podError(t.pod, ErrOwned, "", holder(lease))
		default:
			lease.OwnerReferences, lease.Spec = c.newLease(t).OwnerReferences, c.newLease(t).Spec
			lease, err = leases.Update(ctx, lease, metav1.UpdateOptions{}) // fails if another was first
		}
		if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			continue
		}
		return lease, c.apiError(t.pod.Name, err)
	}
}

// newLease returns the lease that this orchestrator holds from now on. The
// cluster deletes it with the pod.
func (c *cluster) newLease(t *target) *coordinationv1.Lease {
	now := metav1.NowMicro()
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name:   t.pod.Name,
			Labels: map[string]string{LabelManagedBy: ManagedBy},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Pod", Name: t.pod.Name, UID: t.pod.UID,
			}},
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity:       &c.owner,
			LeaseDurationSeconds: new(int32(leaseDuration / time.Second)),
			AcquireTime:          &now,
			RenewTime:            &now,
		},
	}
}

// isHeld reports whether another than this orchestrator holds the lease of
// this very pod. Orchestrators' clocks must not be leaseDuration apart.
func (c *cluster) isHeld(lease *coordinationv1.Lease, t *target) bool {
	spec := lease.Spec
	if spec.HolderIdentity == nil || *spec.HolderIdentity == "" || spec.RenewTime == nil || spec.LeaseDurationSeconds == nil {
		return false
	}
	for _, o := range lease.OwnerReferences {
		if o.UID != t.pod.UID {
			return false // it is that of a pod that is gone
		}
	}
	return time.Since(spec.RenewTime.Time) < time.Duration(*spec.LeaseDurationSeconds)*time.Second
}

// holder says who holds a lease.
func holder(lease *coordinationv1.Lease) string {
	return fmt.Sprintf("it is held by %q, who renewed it at %s", *lease.Spec.HolderIdentity, lease.Spec.RenewTime.UTC().Format(time.RFC3339))
}

// renew renews the lease until ctx ends. It returns why the lease is lost.
func (c *cluster) renew(ctx context.Context, t *target, lease *coordinationv1.Lease) error {
	renewed := time.Now()
	for {
		pause(ctx, leaseDuration/3)
		if ctx.Err() != nil {
			return nil
		}
		lease.Spec.RenewTime = new(metav1.NowMicro())
		next, err := c.api.CoordinationV1().Leases(c.namespace).Update(ctx, lease, metav1.UpdateOptions{})
		switch {
		case err == nil:
			lease, renewed = next, time.Now()
		case apierrors.IsConflict(err), apierrors.IsNotFound(err):
			e := c.podError(t.pod, ErrOwned, "", "the lease was taken away")
			e.Err = err
			return e
		case time.Since(renewed) > leaseDuration && ctx.Err() == nil:
			return c.podError(t.pod, ErrOwned, "", fmt.Sprintf("the lease could not be renewed for %v: %v", leaseDuration, err))
		}
	}
}

// release lets go of the lease, if this orchestrator holds it.
func (c *cluster) release(ctx context.Context, name string) error {
	leases := c.api.CoordinationV1().Leases(c.namespace)
	lease, err := leases.Get(ctx, name, metav1.GetOptions{})
	if err == nil && lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity == c.owner {
		err = leases.Delete(ctx, name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion},
		})
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return c.apiError(name, err)
}
