package launcher

import (
	"context"
	"fmt"

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
	ctx, cancel := context.WithTimeout(ctx, warmPatience)
	defer cancel()
	if w.info, err = w.client.Info(ctx); err != nil {
		w.close()
	}
	return err
}

func (w *warmConn) close() { _ = w.client.Close() } // nothing was written

// taken returns the same connection as one to a sandbox's pod.
func (w *warmConn) taken(pod *corev1.Pod) *openPod {
	return &openPod{cluster: w.pod.cluster, pod: pod, warm: w, way: w.pod.way}
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

// meet begins to connect to a pod that waits, or takes a connection that was kept to it.
func (c *cluster) meet(ctx context.Context, pod *corev1.Pod, spec *Spec) *meeting {
	ctx, cancel := context.WithCancel(ctx)
	m := &meeting{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(m.done)
		if m.conn = c.kept.take(pod); m.conn == nil {
			m.conn, m.err = c.connectWarm(ctx, pod)
		} else {
			m.err = m.conn.ask(ctx)
		}
		if m.err == nil && m.conn != nil {
			m.err = spec.Pod.checkConfined(m.conn.info)
		}
	}()
	return m
}

// await returns an *unusableError unless the agent has answered.
func (m *meeting) await() error {
	<-m.done
	m.cancel()
	if m.err != nil {
		return &unusableError{fmt.Errorf("its agent does not serve: %w", m.err)}
	}
	return nil
}

// end ends the connection.
func (m *meeting) end() {
	m.cancel()
	<-m.done
	if m.conn != nil {
		m.conn.close()
	}
}
