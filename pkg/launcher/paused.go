package launcher

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// Pause removes the sandbox's pod, and returns when it is gone. The files in its workdir
// stay, if they are in a claim of its own (see [Workspace]); else it changes nothing and
// returns [ErrNotKept]. Without a sandbox it is [ErrNotFound].
func (k *Kubernetes) Pause(ctx context.Context, id string) error {
	c, ctx, err := k.cluster(ctx)
	if err != nil {
		return wrap("pausing", id, err)
	}
	return wrap("pausing", id, c.pause(ctx, id))
}

func (c *cluster) pause(ctx context.Context, id string) error {
	pod, err := c.lookup(ctx, id)
	switch {
	case errors.Is(err, ErrPaused):
		return c.pauseAgain(ctx, id)
	case err != nil:
		return err
	case !ownClaim(pod):
		return c.podError(pod, ErrNotKept, "", "its workspace is not a claim of its own")
	}
	if err := c.adoptClaim(ctx, pod); err != nil {
		return terminated(err)
	}
	return c.remove(ctx, pod)
}

// pauseAgain is a pause of a sandbox that has no pod: its files stay from now on, whenever they were
// to go.
func (c *cluster) pauseAgain(ctx context.Context, id string) error {
	claim, err := c.pausedClaim(ctx, id)
	if errors.Is(err, errAnotherLaunch) {
		return nil
	}
	if err == nil {
		err = c.forgetFilesEnd(ctx, claim)
	}
	if errors.Is(err, ErrNotKept) {
		return ErrNotFound
	}
	return terminated(err)
}

// terminated returns ErrNotFound in place of an error by which the claim of a sandbox is gone
// by now.
func terminated(err error) error {
	if apierrors.IsNotFound(err) && !errors.Is(err, ErrNoNamespace) {
		return ErrNotFound
	}
	return err
}

// Resume opens a sandbox that is paused, or whose pod has ended, in a new pod made like
// the last one, with the files in its workdir. Without them the error is [ErrStale], and
// [ErrUnsigned] if this identity has not signed how the pod is made. One that runs is opened as by
// Open. Launch resumes by its Spec.
func (k *Kubernetes) Resume(ctx context.Context, id string) (*Sandbox, error) {
	c, ctx, err := k.cluster(ctx)
	if err != nil {
		return nil, wrap("resuming", id, err)
	}
	sandbox, err := c.resume(ctx, id)
	if err != nil {
		return nil, wrap("resuming", id, err)
	}
	return sandbox.endsBy(k), nil
}

func (c *cluster) resume(ctx context.Context, id string) (*Sandbox, error) {
	ready, cancel := context.WithTimeoutCause(ctx, DefaultReadyTimeout, errNotReady)
	defer cancel()
	for {
		pod, made, err := c.revive(ready, id)
		if err != nil {
			return nil, c.timedOut(ready, podmeta.NameOf(id), DefaultReadyTimeout, err)
		}
		if !made {
			sandbox, err := c.open(ctx, id)
			if errors.Is(err, ErrGone) && ready.Err() == nil {
				continue
			}
			return sandbox, err
		}
		s, err := c.enterAgain(ctx, pod, true)
		if err != nil {
			return nil, errors.Join(err, c.abandon(ctx, pod))
		}
		return s, nil
	}
}

// revive returns the pod of the sandbox, and whether this call created it.
func (c *cluster) revive(ctx context.Context, id string) (*corev1.Pod, bool, error) {
	for ctx.Err() == nil {
		pod, err := c.lookup(ctx, id)
		switch {
		case errors.Is(err, ErrPaused):
			pod, err = c.remake(ctx, id)
			if errors.Is(err, errAnotherLaunch) {
				continue
			}
			if !apierrors.IsAlreadyExists(err) {
				return pod, err == nil, err
			}
		case err != nil:
			return nil, false, err
		case pod.DeletionTimestamp != nil:
			err = c.awaitGone(ctx, pod)
		case ended(pod) && ownClaim(pod):
			if err = c.checkResumable(ctx, pod, id); err == nil {
				err = c.remove(ctx, pod)
			}
		default:
			return pod, false, nil
		}
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return nil, false, err
		}
	}
	return nil, false, context.Cause(ctx)
}

// checkResumable returns why the sandbox of a pod that has ended cannot get another.
func (c *cluster) checkResumable(ctx context.Context, pod *corev1.Pod, id string) error {
	if err := c.checkKey(ctx, pod); err != nil {
		return err
	}
	claim, err := c.keptClaimOf(ctx, pod)
	if err == nil {
		_, err = c.notedPodNow(ctx, claim, id)
	}
	return err
}

// remake creates the pod of a paused sandbox.
func (c *cluster) remake(ctx context.Context, id string) (*corev1.Pod, error) {
	claim, err := c.pausedClaim(ctx, id)
	if err != nil {
		return nil, err
	}
	pod, err := c.notedPodNow(ctx, claim, id)
	if err != nil {
		return nil, err
	}
	if err := c.takeClaim(ctx, claim, id, time.Now()); err != nil {
		return nil, terminated(err)
	}
	pod = again(pod, time.Now())
	if c.connection == ByAddress && !listensOnAddress(pod) {
		listenOnAddress(pod)
	}
	return c.make(ctx, pod, &Spec{}) // the claim exists already
}
