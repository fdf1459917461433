package metrics

import (
	"context"
	"net/http"
	"time"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchtrace"
)

var _ gateway.Follower = (*Metrics)(nil)

// call is what is remembered of a call under way.
type call struct{ operation string } // as it began with; "" if it has not begun

type callKey struct{}

// Arrive implements [gateway.Follower].
func (*Metrics) Arrive(ctx context.Context, _ gateway.Act, _ *http.Request) context.Context {
	return context.WithValue(ctx, callKey{}, &call{})
}

// Begin implements [gateway.Observer].
func (m *Metrics) Begin(ctx context.Context, a gateway.Act) error {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		c.operation = m.operationOf(a.Operation)
		m.inFlight.WithLabelValues(c.operation).Inc()
	}
	return nil
}

// End implements [gateway.Observer].
func (m *Metrics) End(ctx context.Context, a gateway.Act, o gateway.Outcome) {
	operation := m.operationOf(a.Operation)
	if c, ok := ctx.Value(callKey{}).(*call); ok && c.operation != "" {
		m.inFlight.WithLabelValues(c.operation).Dec()
	}
	code := codeOf(o.Status)
	m.calls.WithLabelValues(operation, code, m.classes.value(o.Class)).Inc()
	m.took.WithLabelValues(operation).Observe(seconds(o.Took))
	m.received.WithLabelValues(operation).Add(float64(o.In))
	m.sent.WithLabelValues(operation).Add(float64(o.Out))
	if m.tenants != nil {
		m.tenants.WithLabelValues(a.Tenant, code).Inc()
	}
}

// Refuse implements [gateway.Follower].
func (m *Metrics) Refuse(_ context.Context, status int, class string) {
	m.refusals.WithLabelValues(codeOf(status), m.classes.value(class)).Inc()
}

// Launch implements [gateway.Follower].
func (m *Metrics) Launch(ctx context.Context, resume bool) (context.Context, func(*launcher.Sandbox, string)) {
	began := time.Now()
	var got, answered, ready time.Time
	ctx = launchtrace.WithTrace(ctx, &launchtrace.Trace{
		GotPod:   func(launchtrace.Pod) { got = time.Now() },
		Answered: func() { answered = time.Now() },
		Ready:    func() { ready = time.Now() },
	})
	return ctx, func(s *launcher.Sandbox, class string) {
		start := startOf(s, resume)
		m.launches.WithLabelValues(start, m.classes.value(class)).Inc()
		if s == nil {
			return
		}
		m.launchTook.WithLabelValues(start).Observe(seconds(time.Since(began)))
		if s.Start.Cold != "" {
			m.misses.WithLabelValues(missReason(s.Start.Cold)).Inc()
		}
		if ready.IsZero() || answered.IsZero() || got.IsZero() {
			return // this launcher tells no phases
		}
		for phase, took := range map[string]time.Duration{"pod": got.Sub(began), "agent": answered.Sub(got), "ready": ready.Sub(answered)} {
			m.phase.WithLabelValues(start, phase).Observe(seconds(took))
		}
	}
}

// startOf returns the label for how a launch got its pod.
func startOf(s *launcher.Sandbox, resume bool) string {
	switch {
	case s == nil:
		return "none"
	case resume:
		return "resumed"
	case s.Start.Warm:
		return string(launchtrace.Warm)
	case s.Created:
		return string(launchtrace.Cold)
	}
	return string(launchtrace.Adopted)
}

// Audit returns an observer that counts where another one fails, which writes the audit log.
func (m *Metrics) Audit(log gateway.Observer) gateway.Observer { return &audited{log, m} }

type audited struct {
	gateway.Observer
	metrics *Metrics
}

func (a *audited) Begin(ctx context.Context, act gateway.Act) error {
	err := a.Observer.Begin(ctx, act)
	if err != nil {
		a.metrics.unrecorded.Inc()
	}
	return err
}
