package launcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podagent/podagent/pkg/launcher/internal/keys"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
	"github.com/podagent/podagent/pkg/podapi"
)

// Extend lets the sandbox live for at least d from now, and returns when it ends, which
// is never sooner than before. Without a Lifetime the error is [ErrNoLifetime], and
// beyond the pod's ActiveDeadline [ErrDeadline].
func (k *Kubernetes) Extend(ctx context.Context, id string, d time.Duration) (time.Time, error) {
	c, ctx, err := k.cluster(ctx)
	if err != nil {
		return time.Time{}, wrap("extending", id, err)
	}
	if d <= 0 || d > maxActiveDeadline {
		err = &SpecError{"Pod.Lifetime", fmt.Sprintf("cannot be extended by %v: it is up to %v", d, maxActiveDeadline)}
		return time.Time{}, wrap("extending", id, err)
	}
	expires, err := c.setExpiry(ctx, id, func() time.Time { return time.Now().Add(d) }, false)
	return expires, wrap("extending", id, err)
}

// Expire makes the sandbox end at a time, also sooner than planned, and returns that time. Errors
// are those of Extend, a *[SpecError] for a time that has passed, and [errors.ErrUnsupported] for
// an agent too old to end sooner.
func (k *Kubernetes) Expire(ctx context.Context, id string, at time.Time) (time.Time, error) {
	c, ctx, err := k.cluster(ctx)
	if err != nil {
		return time.Time{}, wrap("setting the end of", id, err)
	}
	if left := time.Until(at); left <= 0 || left > maxActiveDeadline {
		err = &SpecError{"Pod.Lifetime", fmt.Sprintf("cannot end at %s: that is %v from now, and must be up to %v", at.UTC().Format(time.RFC3339), left.Round(time.Second), maxActiveDeadline)}
		return time.Time{}, wrap("setting the end of", id, err)
	}
	expires, err := c.setExpiry(ctx, id, func() time.Time { return at }, true)
	return expires, wrap("setting the end of", id, err)
}

// setExpiry makes the sandbox end at a time, which may come before the present one if it may be
// sooner, and returns when it ends.
func (c *cluster) setExpiry(ctx context.Context, id string, at func() time.Time, sooner bool) (time.Time, error) {
	for {
		pod, err := c.find(ctx, id)
		if err != nil {
			return time.Time{}, err
		}
		expires, err := c.noteExpiry(ctx, pod, at(), sooner)
		if apierrors.IsConflict(err) { // the pod has changed meanwhile
			continue
		}
		if err != nil {
			return expires, err
		}
		// Tell the agent even if another call has extended the time further: that call
		// may not have reached the agent.
		return expires, c.tellExpiry(ctx, pod, expires, sooner)
	}
}

// tellExpiry tells the agent when it ends. Another call may have written another time into the pod
// since, and have told the agent before: then it is told that time, until both say the same.
func (c *cluster) tellExpiry(ctx context.Context, pod *corev1.Pod, expires time.Time, sooner bool) error {
	return c.openPod(pod).query(ctx, tellTime, func(ctx context.Context, client *podapi.Client) error {
		for {
			if err := client.Configure(ctx, podapi.Config{Expires: expires, Sooner: sooner}); err != nil {
				return err
			}
			now, err := c.latest(ctx, pod)
			if err != nil || expiry(now).IsZero() || expiry(now).Equal(expires) {
				return err
			}
			expires, sooner = expiry(now), true
		}
	})
}

// checkSooner returns an error if the pod's agent only ever puts its end off.
func (c *cluster) checkSooner(ctx context.Context, pod *corev1.Pod) error {
	return c.openPod(pod).query(ctx, tellTime, func(ctx context.Context, client *podapi.Client) error {
		info, err := client.Info(ctx)
		if err == nil && !slices.Contains(info.Capabilities, "sooner") {
			err = c.podError(pod, errors.ErrUnsupported, "", "the agent's image is too old to end sooner than planned")
		}
		return err
	})
}

// noteExpiry writes into the pod when it ends, and returns the resulting time. An agent that
// restarts uses it.
func (c *cluster) noteExpiry(ctx context.Context, pod *corev1.Pod, expires time.Time, sooner bool) (time.Time, error) {
	now := expiry(pod)
	switch deadline := hardDeadline(pod); {
	case now.IsZero():
		return now, c.podError(pod, ErrNoLifetime, "", "it ends at its active deadline, or when it is deleted")
	case expires.Equal(now), !sooner && expires.Before(now):
		return now, nil
	case expires.Before(now):
		if err := c.checkSooner(ctx, pod); err != nil {
			return now, err
		}
	case !deadline.IsZero() && expires.After(deadline):
		return now, c.podError(pod, ErrDeadline, "", fmt.Sprintf("the cluster ends it at %s", deadline.UTC().Format(time.RFC3339)))
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "resourceVersion": pod.ResourceVersion, // preconditions
		"annotations": map[string]string{podmeta.AnnotationExpires: timeText(expires)},
	}})
	if err != nil {
		return now, err
	}
	_, err = c.api.CoreV1().Pods(c.namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return expires, c.apiError(pod.Name, err)
}

// expiry returns when the pod's agent ends by itself; zero for never.
func expiry(pod *corev1.Pod) time.Time {
	t, _ := time.Parse(time.RFC3339Nano, pod.Annotations[podmeta.AnnotationExpires])
	return t
}

// hardDeadline returns when the cluster ends the pod; zero if that is unknown.
func hardDeadline(pod *corev1.Pod) time.Time {
	if pod.Spec.ActiveDeadlineSeconds == nil || pod.Status.StartTime == nil {
		return time.Time{}
	}
	return pod.Status.StartTime.Add(time.Duration(*pod.Spec.ActiveDeadlineSeconds) * time.Second)
}

// idle is when the agent ends for want of work.
func (p *Pod) idle() keys.Idle {
	return keys.Idle{Timeout: p.IdleTimeout, IgnoresCommands: p.IdleIgnoresCommands}
}

// expiresVariable tells the agent when it ends.
const expiresVariable = "PODAGENT_EXPIRES"

// lifeOf makes the agent end by itself. The pod then ends, too, since a container
// that ends with 0 is not restarted.
func lifeOf(pod *corev1.Pod, spec *Spec, now time.Time) {
	p := &spec.Pod
	if p.Lifetime == 0 && p.IdleTimeout == 0 {
		return
	}
	pod.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	c := &pod.Spec.Containers[0]
	if p.IdleTimeout > 0 {
		c.Env = append(c.Env, corev1.EnvVar{Name: "PODAGENT_IDLE_TIMEOUT", Value: p.IdleTimeout.String()})
		if p.IdleIgnoresCommands {
			c.Env = append(c.Env, corev1.EnvVar{Name: "PODAGENT_IDLE_IGNORES_COMMANDS", Value: "true"})
		}
	}
	if p.Lifetime > 0 {
		pod.Annotations[podmeta.AnnotationExpires] = timeText(now.Add(p.Lifetime))
		c.Env = append(c.Env, fromAnnotation(expiresVariable, podmeta.AnnotationExpires))
	}
}

// renewLife gives a pod that is created anew its full time again.
func renewLife(pod *corev1.Pod, now time.Time) {
	var made traits
	if json.Unmarshal([]byte(pod.Annotations[podmeta.AnnotationSpec]), &made) != nil || made.Lifetime == "" {
		return
	}
	if d, err := time.ParseDuration(made.Lifetime); err == nil {
		pod.Annotations[podmeta.AnnotationExpires] = timeText(now.Add(d))
	}
}

// checkLife checks the times after which the pod ends by itself.
func (p *Pod) checkLife() *SpecError {
	for field, d := range map[string]time.Duration{"Pod.Lifetime": p.Lifetime, "Pod.IdleTimeout": p.IdleTimeout} {
		if d < 0 || d > 0 && d < minLife {
			return &SpecError{field, fmt.Sprintf("is %v: it is at least %v", d, minLife)}
		}
	}
	if p.IdleIgnoresCommands && p.IdleTimeout == 0 {
		return &SpecError{"Pod.IdleIgnoresCommands", "is set without an IdleTimeout"}
	}
	deadline := p.ActiveDeadline
	if deadline == 0 {
		deadline = DefaultActiveDeadline
	}
	if p.Lifetime > deadline {
		return &SpecError{"Pod.Lifetime", fmt.Sprintf("is %v, beyond the ActiveDeadline of %v", p.Lifetime, deadline)}
	}
	return nil
}
