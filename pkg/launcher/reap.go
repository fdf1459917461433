package launcher

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/pkg/launcher/podmeta"
	"github.com/podagent/podagent/pkg/podapi"
)

// ReapOptions say which sandboxes [Kubernetes.Reap] deletes.
type ReapOptions struct {
	StaleAfter    time.Duration // for how long there was no heartbeat and no work; 0: DefaultStaleAfter
	HeartbeatOnly bool          // asks no agent
	DryRun        bool          // deletes nothing
}

// Reap deletes the sandboxes that nobody needs, and returns them sorted by id: those whose last
// heartbeat is old, and whose agent has been idle for as long or is out of reach for 30 s.
// A kept workspace stays. Pods may still end.
func (k *Kubernetes) Reap(ctx context.Context, opts ReapOptions) ([]Summary, error) {
	switch {
	case opts.StaleAfter < 0:
		return nil, &SpecError{"StaleAfter", fmt.Sprintf("is %v: it must not be negative", opts.StaleAfter)}
	case opts.StaleAfter == 0:
		opts.StaleAfter = DefaultStaleAfter
	}
	c, ctx, err := k.cluster(ctx)
	if err != nil {
		return nil, fmt.Errorf("reaping sandboxes: %w", err)
	}
	pods, err := c.pods(ctx)
	if err != nil {
		return nil, fmt.Errorf("reaping sandboxes: %w", err)
	}
	beats := &freshHeartbeats{cluster: c, pods: pods} // after the pods: a launcher that is late says so in them, too
	if _, err := beats.now(ctx); err != nil {
		return nil, fmt.Errorf("reaping sandboxes: %w", err)
	}
	return c.reapAll(ctx, pods, beats, opts)
}

// reapAll reaps the stale pods, several at once.
func (c *cluster) reapAll(ctx context.Context, pods []corev1.Pod, fresh *freshHeartbeats, opts ReapOptions) ([]Summary, error) {
	beats, atOnce := fresh.beats, askAtOnce
	if opts.HeartbeatOnly {
		atOnce = reapAtOnce
	}
	var (
		mu      sync.Mutex
		reaped  []Summary
		failed  []error
		running sync.WaitGroup
		slots   = make(chan struct{}, atOnce)
	)
	for i := range pods {
		if time.Since(beats.of(&pods[i])) < opts.StaleAfter {
			continue
		}
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			done, err := c.reap(ctx, &pods[i], fresh, opts)
			mu.Lock()
			defer mu.Unlock()
			if done {
				reaped = append(reaped, summaryOf(&pods[i], beats))
			}
			if err != nil {
				failed = append(failed, wrap("reaping", pods[i].Annotations[podmeta.AnnotationID], err))
			}
		})
	}
	running.Wait()
	slices.SortFunc(reaped, func(a, b Summary) int { return strings.Compare(a.ID, b.ID) })
	return reaped, errors.Join(failed...)
}

// reap deletes a pod without a heartbeat if its agent has no work, and reports whether it did.
func (c *cluster) reap(ctx context.Context, pod *corev1.Pod, fresh *freshHeartbeats, opts ReapOptions) (bool, error) {
	if pod.DeletionTimestamp != nil {
		return false, nil
	}
	if err := c.checkForm(pod.Name, "it", pod); err != nil { // nobody reaps it until somebody updates the reaper
		return false, err
	}
	if !opts.HeartbeatOnly && !ended(pod) {
		if idle, err := c.isIdle(ctx, pod, opts.StaleAfter); !idle {
			return false, err
		}
	}
	beats, err := fresh.now(ctx) // a launcher may be back that was away for long
	if err != nil || time.Since(beats.of(pod)) < opts.StaleAfter {
		return false, err
	}
	if opts.DryRun {
		return true, nil
	}
	return c.deleteUnchanged(ctx, pod)
}

// deleteUnchanged deletes the pod unless another pod or a heartbeat has come
// meanwhile, and reports whether it did. It ignores changes of the pod's status,
// since the node writes them at any time, except when the agent's container starts
// or ends.
func (c *cluster) deleteUnchanged(ctx context.Context, pod *corev1.Pod) (bool, error) {
	now := pod
	for range reapTries {
		err := c.tryDelete(ctx, pod, now.ResourceVersion)
		switch {
		case apierrors.IsNotFound(err): // somebody else has deleted it
			return false, nil
		case !apierrors.IsConflict(err):
			return err == nil, err
		}
		now, err = c.api.CoreV1().Pods(c.namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return false, nil
		case err != nil:
			return false, c.apiError(pod.Name, err)
		case now.UID != pod.UID || now.DeletionTimestamp != nil || isRunning(now) != isRunning(pod) || !sameButStatus(now, pod):
			return false, nil
		}
	}
	return false, nil
}

// sameButStatus reports whether two versions of a pod differ at most in their
// status.
func sameButStatus(a, b *corev1.Pod) bool {
	return maps.Equal(a.Annotations, b.Annotations) && maps.Equal(a.Labels, b.Labels) && apiequality.Semantic.DeepEqual(a.Spec, b.Spec)
}

// isIdle reports whether the pod's agent has been idle for that long, or cannot be
// reached. An agent that refuses us may be working for somebody else.
func (c *cluster) isIdle(ctx context.Context, pod *corev1.Pod, atLeast time.Duration) (idle bool, err error) {
	if !isRunning(pod) {
		return true, nil
	}
	if err := errors.Join(c.checkKey(ctx, pod), c.checkListener(pod)); err != nil {
		return false, err
	}
	o := c.openPod(pod)
	err = o.query(ctx, reapPatience, func(ctx context.Context, client *podapi.Client) error {
		info, err := client.Info(ctx)
		if errors.Is(err, podapi.ErrVersion) { // the idle time is known all the same
			err = nil
		}
		idle = err == nil && info.Idle >= atLeast
		return err
	})
	switch {
	case errors.Is(err, podapi.ErrWrongPod) && errors.Is(o.whyEnded(ctx), ErrGone): // it was replaced meanwhile
		return false, nil
	case o.addr.isUnvouched(): // it is there, and may be at work
		return false, err
	case errors.Is(err, podapi.ErrUnavailable), errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return true, nil
	}
	return idle, err
}
