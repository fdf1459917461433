package launcher

import (
	"cmp"
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podagent/podagent/pkg/launcher/podmeta"
	"github.com/podagent/podagent/pkg/podapi"
)

// attach connects to the agent of the pod, as soon as it can answer. A new
// pod has its configuration already.
func (t *target) attach(ctx context.Context, spec *Spec, created bool) (*Sandbox, error) {
	var config *podapi.Config
	if !created && (spec.Env != nil || spec.Protected != nil) {
		config = &podapi.Config{Env: spec.Env, Protected: spec.Protected}
	}
	client, err := podapi.Dial(t.options(config))
	if err != nil {
		return nil, err
	}
	info, err := t.awaitAgent(ctx, client)
	if err != nil {
		client.Close()
		return nil, err
	}
	return &Sandbox{Client: client, ID: t.pod.Annotations[podmeta.AnnotationID], Workdir: info.Workdir, Created: created && t.pod.Annotations[podmeta.AnnotationResumed] == "", target: t}, nil
}

// awaitAgent returns the agent's first answer, or why there can be none.
func (t *target) awaitAgent(ctx context.Context, client *podapi.Client) (podapi.Info, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	observed := make(chan struct{})
	t.state.saw(t.pod)
	go func() {
		defer close(observed)
		cancel(t.observe(ctx))
	}()
	defer func() {
		cancel(nil)
		<-observed
		t.state.saw(nil)
	}()
	for {
		info, err := client.Info(ctx)
		switch {
		case ctx.Err() != nil:
			return info, t.tooLate(ctx)
		case !errors.Is(err, podapi.ErrUnavailable):
			return info, err
		}
		sleep(ctx, firstRetry) // gRPC makes the next attempt when it sees fit
	}
}

// tooLate returns why ctx ended, and if that was a deadline, why there is no
// connection.
func (t *target) tooLate(ctx context.Context) error {
	cause := context.Cause(ctx)
	if failure := t.state.lastFailure(); failure != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &lateError{cause, failure}
	}
	return cause
}

// observe watches the pod until ctx ends, or it is clear that its agent will
// not answer, which is the error.
func (t *target) observe(ctx context.Context) error {
	var s symptoms
	for pod := t.pod; ; {
		err := t.follow(ctx, pod, &s)
		if ctx.Err() == nil && !errors.As(err, new(*PodError)) {
			// Watches end now and then; read what this one missed.
			var lookErr error
			pod, lookErr = t.look(ctx, pod, &s)
			err = cmp.Or(lookErr, err)
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.As(err, new(*PodError)):
			return err
		case err != nil:
			t.log.Debug("cannot watch pod", "pod", t.pod.Name, "error", err)
			sleep(ctx, apiRetry)
		}
	}
}

// follow judges each state of the pod after this one, until the watch ends or
// the symptoms are to be looked at again.
func (t *target) follow(ctx context.Context, pod *corev1.Pod, s *symptoms) error {
	ctx, cancel := s.until(ctx)
	defer cancel()
	for event, err := range t.events(ctx, pod) {
		if errors.Is(err, errLookAgain) {
			return nil
		}
		if err != nil {
			return err
		}
		if event.Type == watch.Deleted {
			return t.podError(t.pod, ErrGone, "", "it was deleted")
		}
		now, ok := event.Object.(*corev1.Pod)
		if !ok {
			continue
		}
		t.state.saw(now)
		if err := t.judge(ctx, now, s); err != nil || s.isNew() {
			return err
		}
	}
	return nil
}

// look judges the pod's present state, which it returns.
func (t *target) look(ctx context.Context, pod *corev1.Pod, s *symptoms) (*corev1.Pod, error) {
	now, err := t.get(ctx, t.pod.Name)
	if apierrors.IsNotFound(err) {
		return pod, t.podError(t.pod, ErrGone, "", "it was deleted")
	}
	if err != nil {
		return pod, err
	}
	t.state.saw(now)
	return now, t.judge(ctx, now, s)
}

// judge returns why the pod, as it is now, will not become ready.
func (t *target) judge(ctx context.Context, now *corev1.Pod, s *symptoms) error {
	if err := t.lost(ctx, now); err != nil {
		return err
	}
	reason, message, class := s.read(now)
	if class == nil {
		return nil
	}
	e := t.podError(now, class, reason, message)
	e.Events = t.warnings(ctx, now)
	return e
}
