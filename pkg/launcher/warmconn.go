package launcher

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/podagent/podagent/pkg/podapi"
)

// warmConn is a connection to the agent of a pod that waits in a pool.
type warmConn struct {
	pod    *openPod // as it waits
	client *podapi.Client
	info   podapi.Info // the agent's latest answer
}

// dialWarm connects to the agent of a pod that waits. It returns when the agent has answered.
func (c *cluster) dialWarm(ctx context.Context, pod *corev1.Pod) (*warmConn, error) {
	o := c.openPod(pod)
	client, err := podapi.Dial(o.options())
	if err != nil {
		return nil, err
	}
	w := &warmConn{pod: o, client: client}
	if err := w.ask(ctx); err != nil {
		return nil, err
	}
	return w, nil
}

// ask asks whether the agent serves. If not, it closes the connection.
func (w *warmConn) ask(ctx context.Context) (err error) {
	if w.info, err = w.client.Info(ctx); err != nil {
		w.close()
	}
	return err
}

func (w *warmConn) close() { _ = w.client.Close() } // nothing was written; a second call does nothing

// taken returns the same connection as one to a sandbox's pod.
func (w *warmConn) taken(pod *corev1.Pod) *openPod {
	return &openPod{cluster: w.pod.cluster, pod: pod, warm: w, way: w.pod.way}
}

// check returns why the agent is of no use for a Spec.
func (w *warmConn) check(spec *Spec) error {
	return errors.Join(spec.Pod.checkConfined(w.info), w.pod.checkEgress(spec, w.info), checkAssignable(w.info))
}

// checkAssignable returns an error if an agent is older than pools, and so ignores assignments.
func checkAssignable(info podapi.Info) error {
	if slices.Contains(info.Capabilities, "assignment") {
		return nil
	}
	return fmt.Errorf("%w: the agent (%s) of the pod does not know pools: update the pool's image", podapi.ErrVersion, info.Version)
}

// unusableError says why the agent of a pod that waits is of no use.
type unusableError struct{ error }

func (e *unusableError) Unwrap() error { return e.error }

// meeting is a connection to a pod that waits, while it is being made.
type meeting struct {
	cancel context.CancelFunc
	done   chan struct{}
	conn   *warmConn // with err, once done is closed
	err    error
}

// meet begins to connect to a pod that waits. It asks the agent by a connection that was kept,
// unless that is nil.
func (c *cluster) meet(ctx context.Context, spec *Spec, pod *corev1.Pod, kept *warmConn) *meeting {
	launch := ctx
	ctx, cancel := context.WithTimeout(launch, warmPatience)
	m := &meeting{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(m.done)
		if m.conn = c.askKept(ctx, kept); m.conn == nil {
			m.conn, m.err = c.connectWarm(ctx, pod)
		}
		ended := launch.Err() != nil || errors.Is(ctx.Err(), context.Canceled)
		switch {
		case m.err != nil && !ended && !errors.Is(m.err, ErrGone):
			c.silent.add(pod.UID)
			m.err = &unusableError{fmt.Errorf("%s: %w", isSilent, m.err)}
		case m.err == nil && m.conn != nil:
			if err := m.conn.check(spec); err != nil {
				m.err = &unusableError{err}
			}
		}
	}()
	return m
}

// isSilent says that a pod cannot be taken because its agent does not answer.
const isSilent = "its agent does not serve"

// askKept returns a connection that was kept if its agent answers soon; else nil.
func (c *cluster) askKept(ctx context.Context, kept *warmConn) *warmConn {
	if kept == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, keepPatience)
	defer cancel()
	if kept.ask(ctx) != nil {
		return nil
	}
	return kept
}

// await returns an error unless the agent has answered: an *unusableError, ErrGone if the pod
// is gone, or why ctx has ended.
func (m *meeting) await() error {
	<-m.done
	m.cancel()
	return m.err
}

// end ends the connection.
func (m *meeting) end() {
	m.cancel()
	<-m.done
	if m.conn != nil {
		m.conn.close()
	}
}
