package launcher

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typed "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/podagent/podagent/internal/delay"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// lease is this orchestrator's claim to be the only exclusive owner of a pod.
type lease struct {
	*openPod
	holder  string    // names this claim
	renewed time.Time // when the latest renewal began; only renew uses it, once it runs
	stop    func()    // ends the renewal that keep began, and waits for it

	mu     sync.Mutex
	object *coordinationv1.Lease
}

func (c *cluster) leases() typed.LeaseInterface { return c.api.CoordinationV1().Leases(c.namespace) }

// acquireLease makes or takes the lease of the pod.
func (o *openPod) acquireLease(ctx context.Context) (*lease, error) {
	l := &lease{openPod: o, holder: o.owner + "/" + strings.ToLower(rand.Text()[:8])}
	for {
		l.renewed = time.Now()
		object, err := l.leases().Get(ctx, o.pod.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			object, err = l.leases().Create(ctx, l.new(), metav1.CreateOptions{})
		case err != nil:
		case l.isHeld(object):
			return nil, o.podError(o.pod, ErrOwned, "", holderOf(object))
		default:
			ours := l.new()
			object.OwnerReferences, object.Spec = ours.OwnerReferences, ours.Spec
			object, err = l.leases().Update(ctx, object, metav1.UpdateOptions{}) // fails if another owner was first
		}
		if ctx.Err() == nil && (apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) || apierrors.IsNotFound(err)) {
			continue
		}
		l.object = object
		return l, o.apiError(o.pod.Name, err)
	}
}

// new returns the lease as this claim holds it from now on. The cluster deletes
// it with the pod.
func (l *lease) new() *coordinationv1.Lease {
	now := metav1.NowMicro()
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name:   l.pod.Name,
			Labels: map[string]string{podmeta.LabelManagedBy: podmeta.ManagedBy},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Pod", Name: l.pod.Name, UID: l.pod.UID,
			}},
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity:       &l.holder,
			LeaseDurationSeconds: new(int32(leaseDuration / time.Second)),
			AcquireTime:          &now,
			RenewTime:            &now,
		},
	}
}

// isHeld reports whether somebody holds the lease of exactly this pod.
func (o *openPod) isHeld(object *coordinationv1.Lease) bool {
	spec := object.Spec
	if spec.HolderIdentity == nil || *spec.HolderIdentity == "" || spec.RenewTime == nil || spec.LeaseDurationSeconds == nil {
		return false
	}
	for _, owner := range object.OwnerReferences {
		if owner.UID != o.pod.UID {
			return false // it belongs to a pod that is gone
		}
	}
	return time.Since(spec.RenewTime.Time) < time.Duration(*spec.LeaseDurationSeconds)*time.Second
}

// holderOf names the holder of a lease.
func holderOf(object *coordinationv1.Lease) string {
	return fmt.Sprintf("it is held by %q, who renewed it at %s", *object.Spec.HolderIdentity, object.Spec.RenewTime.UTC().Format(time.RFC3339))
}

// isOurs reports whether this claim still holds the lease.
func (l *lease) isOurs(object *coordinationv1.Lease) bool {
	return object.Spec.HolderIdentity != nil && *object.Spec.HolderIdentity == l.holder
}

// attachOwning is attachBeating for an exclusive owner. A caller that does not get the
// lease changes nothing in the pod, and does not mark it as used.
func (o *openPod) attachOwning(ctx context.Context, spec *Spec, created bool) (*Sandbox, error) {
	l, err := o.acquireLease(ctx)
	if err != nil {
		return nil, err
	}
	held := l.keep(ctx)
	if !created {
		err = o.mark(held, o.pod)
	}
	var s *Sandbox
	if err == nil {
		s, err = o.attachBeating(held, spec, created)
	}
	if err != nil {
		return nil, errors.Join(err, l.abort(ctx))
	}
	s.own(l)
	return s, nil
}

// keep renews the lease from now on, because a pod may take longer to start than a
// lease lasts. When the lease is lost, every further call fails, and the returned
// context ends.
func (l *lease) keep(ctx context.Context) context.Context {
	renewing, stop := context.WithCancel(context.WithoutCancel(ctx))
	ctx, cancel := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		err := l.renew(renewing)
		if err != nil {
			l.kill(err)
		}
		cancel(err)
	})
	l.stop = func() { stop(); running.Wait() }
	return ctx
}

// own makes Close release the lease.
func (s *Sandbox) own(l *lease) {
	s.lease = l
	s.closes(func(ctx context.Context) error {
		l.stop()
		return l.release(ctx)
	})
}

// discardMade removes what the sandbox's launch has created, unless there has been
// another exclusive owner since then.
func (s *Sandbox) discardMade(ctx context.Context, pod *corev1.Pod) error {
	for s.lease != nil {
		err := s.lease.renewOnce(ctx)
		switch {
		case apierrors.IsConflict(err):
			return nil
		case apierrors.IsNotFound(err) && s.pod.isThere(ctx): // another owner had it, and released it
			return nil
		case err == nil, apierrors.IsNotFound(err):
			return s.pod.discardMade(ctx, pod)
		case ctx.Err() != nil:
			return s.lease.apiError(pod.Name, err)
		}
		delay.For(ctx, leaseRetry)
	}
	return s.pod.discardMade(ctx, pod)
}

// isThere reports whether the pod exists, according to the API server.
func (o *openPod) isThere(ctx context.Context) bool {
	now, err := o.get(ctx, o.pod.Name)
	return err == nil && now.UID == o.pod.UID && now.DeletionTimestamp == nil
}

// renew renews the lease until ctx ends. It returns why the lease is lost.
func (l *lease) renew(ctx context.Context) error {
	for wait := leasePeriod; ; {
		delay.For(ctx, wait)
		began := time.Now()
		err := l.renewOnce(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			l.renewed, wait = began, leasePeriod
		case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
			e := l.podError(l.pod, ErrOwned, "", "the lease was taken away")
			e.Err = err
			return e
		case time.Since(l.renewed) > leaseDeadline:
			return l.podError(l.pod, ErrOwned, "", fmt.Sprintf("the lease could not be renewed for %v: %v", leaseDeadline, err))
		default:
			wait = leaseRetry
		}
	}
}

// renewOnce tries once. On a conflict it looks again: the object may have been
// changed while the lease is still ours, or the answer to an earlier try was lost.
func (l *lease) renewOnce(ctx context.Context) error {
	l.mu.Lock() // Close may run at the same time
	defer l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, leaseTry)
	defer cancel()
	for {
		l.object.Spec.RenewTime = new(metav1.NowMicro())
		object, err := l.leases().Update(ctx, l.object, metav1.UpdateOptions{})
		if err == nil {
			l.object = object
			return nil
		}
		if !apierrors.IsConflict(err) {
			return err
		}
		now, getErr := l.leases().Get(ctx, l.object.Name, metav1.GetOptions{})
		if getErr != nil {
			return getErr
		}
		if !l.isOurs(now) {
			return err
		}
		l.object = now
	}
}

// release gives the lease up, if this claim still holds it.
func (l *lease) release(ctx context.Context) error {
	object, err := l.leases().Get(ctx, l.pod.Name, metav1.GetOptions{})
	if err == nil && l.isOurs(object) {
		err = l.leases().Delete(ctx, object.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &object.UID, ResourceVersion: &object.ResourceVersion},
		})
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return l.apiError(l.pod.Name, err)
}

// abort releases the lease of a launch that failed.
func (l *lease) abort(ctx context.Context) error {
	l.stop()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	return l.release(ctx)
}
