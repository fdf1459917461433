package metrics

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podagent/podagent/pkg/egress"
	"github.com/podagent/podagent/pkg/gateway"
)

var (
	_ gateway.EgressFollower = (*Metrics)(nil)
	_ gateway.EgressObserver = (*audited)(nil)
)

// countEgress adds the metrics of the ways out of sandboxes.
func (m *Metrics) countEgress() {
	m.tries = m.counter("egress_tries_total", "Tries of sandboxes to reach a host by the gateway.", "verdict", "protocol")
	m.farEnds = prometheus.NewGauge(prometheus.GaugeOpts(opts("egress_sandboxes", "Sandboxes that this gateway lets out, or is about to.")))
	m.egressOpen = prometheus.NewGauge(prometheus.GaugeOpts(opts("egress_connections", "Connections of sandboxes that are open.")))
	m.egressReceived = prometheus.NewCounter(opts("egress_received_bytes_total", "Bytes from sandboxes, of connections that have been closed."))
	m.egressSent = prometheus.NewCounter(opts("egress_sent_bytes_total", "Bytes to sandboxes, of connections that have been closed."))
	m.unsaid = prometheus.NewCounter(opts("egress_audit_failures_total", "Lines about tries that could not be written to the audit log at once."))
	m.registry.MustRegister(m.farEnds, m.egressOpen, m.egressReceived, m.egressSent, m.unsaid)
}

// protocols are those that there are.
var protocols = map[string]bool{"": true, "connect": true, "http": true, "socks5": true}

// EgressDecided implements [gateway.EgressFollower].
func (m *Metrics) EgressDecided(d egress.Decision) {
	protocol := d.Protocol
	if !protocols[protocol] {
		protocol = other
	}
	m.tries.WithLabelValues(string(d.Verdict), protocol).Inc()
}

// EgressOpened implements [gateway.EgressFollower].
func (m *Metrics) EgressOpened() { m.egressOpen.Inc() }

// EgressClosed implements [gateway.EgressFollower].
func (m *Metrics) EgressClosed(in, out int64) {
	m.egressOpen.Dec()
	m.egressReceived.Add(float64(in))
	m.egressSent.Add(float64(out))
}

// FarEnds implements [gateway.EgressFollower].
func (m *Metrics) FarEnds(more int) { m.farEnds.Add(float64(more)) }

// EgressTried passes a try on to the audit log.
func (a *audited) EgressTried(ctx context.Context, t gateway.EgressTry) error {
	log, ok := a.Observer.(gateway.EgressObserver)
	if !ok {
		return nil
	}
	err := log.EgressTried(ctx, t)
	if err != nil {
		a.metrics.unsaid.Inc()
	}
	return err
}
