package launcher

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// Find implements Launcher. The Heartbeat is the pod's own, not a Lease's.
func (k *Kubernetes) Find(ctx context.Context, id string) (Summary, error) {
	c, ctx, err := k.cluster(ctx)
	if err != nil {
		return Summary{}, wrap("finding", id, err)
	}
	s, err := c.findOne(ctx, id)
	return s, wrap("finding", id, err)
}

// findOne describes a sandbox by its pod, or else by its claim, also one of a newer form.
func (c *cluster) findOne(ctx context.Context, id string) (Summary, error) {
	pod, claim, err := c.findObjects(ctx, id)
	switch {
	case err != nil:
		return Summary{}, err
	case pod != nil:
		s := summaryOf(pod, nil)
		s.usesOf(pod, claim)
		return s, nil
	}
	return summaryOfClaim(claim), nil
}

// findObjects returns the pod of a sandbox, or else its claim; beside a pod the claim that the id holds, if
// there is one. Unlike podOf it changes nothing and waits for no launch: what is under way is not there yet.
func (c *cluster) findObjects(ctx context.Context, id string) (*corev1.Pod, *corev1.PersistentVolumeClaim, error) {
	type result struct {
		pod *corev1.Pod
		err error
	}
	named := make(chan result, 1)
	go func() {
		pod, err := c.get(ctx, podmeta.NameOf(id))
		named <- result{pod, shown(err)}
	}()
	pod, claim, heldErr := c.heldNow(ctx, id)
	own := <-named
	switch {
	case heldErr != nil:
		return nil, nil, heldErr
	case own.err != nil:
		return nil, nil, own.err
	case pod == nil && own.pod != nil && !isBeside(own.pod, claim):
		pod = own.pod
	}
	if pod != nil {
		return pod, claim, c.checkOurs(pod, id)
	}
	if claim == nil {
		var err error
		if claim, err = c.claim(ctx, podmeta.NameOf(id)); claim == nil {
			return nil, nil, missing(err)
		}
	}
	return nil, claim, c.checkOurs(claim, id)
}

// heldNow returns the pod that the id holds, or else the claim that it holds; nil if there is none,
// or a launch is only about to take the pod.
func (c *cluster) heldNow(ctx context.Context, id string) (*corev1.Pod, *corev1.PersistentVolumeClaim, error) {
	held, err := c.holdings().Get(ctx, holdingName(id), metav1.GetOptions{})
	if err != nil {
		return nil, nil, shown(c.apiError(podmeta.NameOf(id), err))
	}
	pod, claim, err := c.heldBy(ctx, held)
	if pod != nil && !isHeldBy(pod, held) {
		pod = nil
	}
	if errors.Is(err, ErrForbidden) && pod == nil { // without the permission for claims, as List does
		err = nil
	}
	return pod, claim, shown(err)
}

// shown returns nil for an error by which an object is not there, or is only shown.
func shown(err error) error {
	if apierrors.IsNotFound(err) || errors.Is(err, ErrNewer) {
		return nil
	}
	return err
}

// missing returns the error for a sandbox whose claim could not be read, either.
func missing(err error) error {
	if apierrors.IsNotFound(err) || errors.Is(err, ErrForbidden) {
		return ErrNotFound
	}
	return err
}
