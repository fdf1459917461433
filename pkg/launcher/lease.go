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

	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// lease is this orchestrator's claim to be the only exclusive owner of a pod.
type lease struct {
	*target
	holder  string    // names this claim
	renewed time.Time // when the latest renewal began; renew's own, once it runs
	stop    func()    // ends the renewal that keep began, and waits for it

	mu     sync.Mutex
	object *coordinationv1.Lease
}

func (l *lease) leases() typed.LeaseInterface {
	return l.target.api.CoordinationV1().Leases(l.namespace)
}

// acquireLease makes or takes the lease of the pod.
func (t *target) acquireLease(ctx context.Context) (*lease, error) {
	l := &lease{target: t, holder: t.owner + "/" + strings.ToLower(rand.Text()[:8])}
	for {
		l.renewed = time.Now()
		object, err := l.leases().Get(ctx, t.pod.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			object, err = l.leases().Create(ctx, l.new(), metav1.CreateOptions{})
		case err != nil:
		case l.isHeld(object):
			return nil, t.podError(t.pod, ErrOwned, "", holderOf(object))
		default:
			ours := l.new()
			object.OwnerReferences, object.Spec = ours.OwnerReferences, ours.Spec
			object, err = l.leases().Update(ctx, object, metav1.UpdateOptions{}) // fails if another was first
		}
		if ctx.Err() == nil && (apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) || apierrors.IsNotFound(err)) {
			continue
		}
		l.object = object
		return l, t.apiError(t.pod.Name, err)
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

// isHeld reports whether somebody holds the lease of this very pod.
func (t *target) isHeld(object *coordinationv1.Lease) bool {
	spec := object.Spec
	if spec.HolderIdentity == nil || *spec.HolderIdentity == "" || spec.RenewTime == nil || spec.LeaseDurationSeconds == nil {
		return false
	}
	for _, o := range object.OwnerReferences {
		if o.UID != t.pod.UID {
			return false // it is that of a pod that is gone
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
func (t *target) attachOwning(ctx context.Context, spec *Spec, created bool) (*Sandbox, error) {
	l, err := t.acquireLease(ctx)
	if err != nil {
		return nil, err
	}
	held := l.keep(ctx)
	if !created {
		err = t.mark(held, t.pod)
	}
	var s *Sandbox
	if err == nil {
		s, err = t.attachBeating(held, spec, created)
	}
	if err != nil {
		return nil, errors.Join(err, l.abort(ctx))
	}
	s.own(l)
	return s, nil
}

// keep renews the lease from now on: a pod may take longer to start than a lease
// lasts. When it is lost, every further call fails, and the context that is returned
// ends.
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

// own has the lease released when the sandbox is closed.
func (s *Sandbox) own(l *lease) {
	s.lease = l
	s.closes(func(ctx context.Context) error {
		l.stop()
		return l.release(ctx)
	})
}

// discardMade removes what the launch of the sandbox has made, unless it has had
// another exclusive owner since then.
func (s *Sandbox) discardMade(ctx context.Context, pod *corev1.Pod) error {
	for s.lease != nil {
		err := s.lease.renewOnce(ctx)
		switch {
		case apierrors.IsConflict(err):
			return nil
		case apierrors.IsNotFound(err) && s.target.isThere(ctx): // another had it, and let it go
			return nil
		case err == nil, apierrors.IsNotFound(err):
			return s.target.discardMade(ctx, pod)
		case ctx.Err() != nil:
			return s.lease.apiError(pod.Name, err)
		}
		sleep(ctx, leaseRetry)
	}
	return s.target.discardMade(ctx, pod)
}

// isThere reports whether the pod is, as far as the API server says.
func (t *target) isThere(ctx context.Context) bool {
	now, err := t.get(ctx, t.pod.Name)
	return err == nil && now.UID == t.pod.UID && now.DeletionTimestamp == nil
}

// renew renews the lease until ctx ends. It returns why the lease is lost.
func (l *lease) renew(ctx context.Context) error {
	for wait := leasePeriod; ; {
		sleep(ctx, wait)
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

// renewOnce tries once. A conflict is looked into: somebody may have changed
// the object, and left the lease ours, or the answer to an earlier try was lost.
func (l *lease) renewOnce(ctx context.Context) error {
	l.mu.Lock() // Close may come beside the renewal
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

// release lets go of the lease, if this claim still holds it.
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
