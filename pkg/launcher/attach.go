package launcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podagent/podagent/internal/delay"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
	"github.com/podagent/podagent/pkg/podapi"
)

// configOf returns what the agent gets before the first call. A new pod has its
// configuration, unless it was taken out of a pool.
func (o *openPod) configOf(spec *Spec, created bool) *podapi.Config {
	config := podapi.Config{Assignment: o.pod.Annotations[podmeta.AnnotationAssignment]}
	if config.Assignment != "" {
		config.Expires = expiry(o.pod) // an agent learns it from the pod only when it starts
	}
	if !created {
		config.Env, config.Protected = spec.Env, spec.Protected
	}
	if config.Assignment == "" && config.Env == nil && config.Protected == nil {
		return nil
	}
	return &config
}

// checkAssigned returns an error if a pod out of a pool has an agent older than pools, which
// ignores its assignment.
func (o *openPod) checkAssigned(info podapi.Info) error {
	if o.pod.Annotations[podmeta.AnnotationAssignment] == "" {
		return nil
	}
	return checkAssignable(info)
}

// attach connects to the agent of the pod as soon as it can answer.
func (o *openPod) attach(ctx context.Context, spec *Spec, created bool) (*Sandbox, error) {
	config := o.configOf(spec, created)
	o.lasting = config != nil && config.Assignment == ""
	client, err := o.dialAgent()
	if err != nil {
		return nil, err
	}
	info, err := o.greet(ctx, client, config)
	if err == nil {
		err = errors.Join(spec.Pod.checkConfined(info), o.checkAssigned(info), o.checkEgress(spec, info))
	}
	if err != nil {
		client.Close()
		return nil, err
	}
	return &Sandbox{Client: client, ID: o.pod.Annotations[podmeta.AnnotationID], Workdir: info.Workdir, Egress: info.Egress, Created: created && o.pod.Annotations[podmeta.AnnotationResumed] == "", pod: o}, nil
}

// dialAgent returns the connection that was made before the pod was taken, or another.
func (o *openPod) dialAgent() (*podapi.Client, error) {
	if o.warm != nil {
		return o.warm.client, nil
	}
	return podapi.Dial(o.options())
}

// greet gives the agent its configuration, and returns its first answer, or the reason why there
// can be none.
func (o *openPod) greet(ctx context.Context, client *podapi.Client, config *podapi.Config) (podapi.Info, error) {
	if o.warm == nil {
		return o.awaitAgent(ctx, client, config)
	}
	return o.warm.info, o.awaitAnswer(ctx, func(ctx context.Context) error { return o.configure(ctx, client, config) })
}

// configure gives the agent its configuration, and again after each of its restarts.
func (o *openPod) configure(ctx context.Context, client *podapi.Client, config *podapi.Config) error {
	if config == nil {
		return nil
	}
	o.config.Store(config)
	if err := client.Configure(ctx, *config); err != nil {
		return fmt.Errorf("configuring the agent: %w", err)
	}
	return nil
}

// awaitAgent is greet for a pod whose agent may not be there yet.
func (o *openPod) awaitAgent(ctx context.Context, client *podapi.Client, config *podapi.Config) (podapi.Info, error) {
	o.starting.Add(1)
	defer o.starting.Add(-1)
	ctx, cancel := context.WithCancelCause(ctx)
	observed := make(chan struct{})
	o.state.saw(o.pod)
	go func() {
		defer close(observed)
		cancel(o.observe(ctx))
	}()
	defer func() {
		cancel(nil)
		<-observed
		o.state.saw(nil)
	}()
	var info podapi.Info
	err := o.awaitAnswer(ctx, func(ctx context.Context) (err error) {
		if info, err = client.Info(ctx); err == nil {
			err = o.configure(ctx, client, config)
		}
		return err
	})
	if ctx.Err() != nil {
		err = o.tooLate(ctx)
	}
	return info, err
}

// awaitAnswer makes the first calls of an agent until they have an answer.
func (o *openPod) awaitAnswer(ctx context.Context, calls func(context.Context) error) error {
	within := answerTimeout
	for {
		err := o.try(ctx, within, calls)
		if ctx.Err() != nil || !errors.Is(err, podapi.ErrUnavailable) {
			return err
		}
		if errors.Is(err, context.DeadlineExceeded) {
			within += answerTimeout // a slow node's agent may need longer
		}
		delay.For(ctx, firstRetry) // gRPC makes the next attempt when it sees fit
	}
}

// try makes calls, which may wait for a connection, within a time. A connection that was there all of it
// is closed, so that another one takes its place.
func (o *openPod) try(ctx context.Context, within time.Duration, calls func(context.Context) error) error {
	before := o.connection()
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	err := calls(ctx)
	if !errors.Is(err, context.DeadlineExceeded) { // the agent may be the first to see that it is too late
		return err
	}
	if before != nil && before == o.connection() {
		before.Close()
	}
	return fmt.Errorf("%w: %w", podapi.ErrUnavailable, err)
}

// tooLate returns why ctx ended. If that was a deadline, it adds why there is no
// connection.
func (o *openPod) tooLate(ctx context.Context) error {
	cause := context.Cause(ctx)
	if failure := o.state.lastFailure(); failure != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &lateError{cause, failure}
	}
	return cause
}

// observe watches the pod until ctx ends or the agent clearly will not answer. Then
// it returns the reason.
func (o *openPod) observe(ctx context.Context) error {
	var s symptoms
	for pod := o.pod; ; {
		err := o.follow(ctx, pod, &s)
		if ctx.Err() == nil && !errors.As(err, new(*PodError)) {
			// Watches end now and then; read what this one missed.
			var lookErr error
			pod, lookErr = o.look(ctx, pod, &s)
			err = cmp.Or(lookErr, err)
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.As(err, new(*PodError)):
			return err
		case err != nil:
			o.log.Debug("cannot watch pod", "pod", o.pod.Name, "error", err)
			delay.For(ctx, apiRetry)
		}
	}
}

// follow judges each further state of the pod, until the watch ends or the symptoms
// must be checked again.
func (o *openPod) follow(ctx context.Context, pod *corev1.Pod, s *symptoms) error {
	ctx, cancel := s.until(ctx)
	defer cancel()
	for event, err := range o.events(ctx, pod) {
		if errors.Is(err, errLookAgain) {
			return nil
		}
		if err != nil {
			return err
		}
		if event.Type == watch.Deleted {
			return o.podError(o.pod, ErrGone, "", "it was deleted")
		}
		now, ok := event.Object.(*corev1.Pod)
		if !ok {
			continue
		}
		o.state.saw(now)
		if err := o.judge(ctx, now, s); err != nil || s.isNew() {
			return err
		}
	}
	return nil
}

// look judges the pod's present state, and returns that state.
func (o *openPod) look(ctx context.Context, pod *corev1.Pod, s *symptoms) (*corev1.Pod, error) {
	now, err := o.get(ctx, o.pod.Name)
	if apierrors.IsNotFound(err) {
		return pod, o.podError(o.pod, ErrGone, "", "it was deleted")
	}
	if err != nil {
		return pod, err
	}
	o.state.saw(now)
	return now, o.judge(ctx, now, s)
}

// judge returns why the pod, as it is now, will not become ready.
func (o *openPod) judge(ctx context.Context, now *corev1.Pod, s *symptoms) error {
	if err := o.lost(ctx, now); err != nil {
		return err
	}
	reason, message, class := s.read(now)
	if class == nil {
		return nil
	}
	e := o.podError(now, class, reason, message)
	e.Events = o.warnings(ctx, now)
	return e
}
