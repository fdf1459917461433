// Package metrics counts what a gateway does, for Prometheus.
//
// [Metrics] is an observer of a gateway, with a registry of its own:
//
//	m := metrics.New()
//	g := gateway.New(gateway.Options{Observers: []gateway.Observer{m}, Swept: m.Swept, …})
//	internal.Handle("/metrics", m.Handler())
//
// No label is of a sandbox, a key, a path or anything else that callers or sandboxes choose, so that
// there are never more series than the gateway has operations, classes of errors and the like. The
// same holds for tenants unless [PerTenant] asks for them.
package metrics

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics are the metrics of a gateway. It implements [gateway.Follower].
type Metrics struct {
	registry   *prometheus.Registry
	operations known
	classes    known

	calls, refusals, received, sent, launches, misses, swept, tenants *prometheus.CounterVec

	inFlight                *prometheus.GaugeVec
	took, launchTook, phase *prometheus.HistogramVec
	unrecorded              prometheus.Counter

	tries                              *prometheus.CounterVec
	farEnds, egressOpen                prometheus.Gauge
	egressReceived, egressSent, unsaid prometheus.Counter
}

// Option changes which metrics there are.
type Option func(*Metrics)

// PerTenant counts the calls of each tenant: as many series more as there are tenants, times a few.
func PerTenant(m *Metrics) {
	m.tenants = m.counter("tenant_calls_total", "Calls that have been answered, by their tenant.", "tenant", "code")
}

// Names of labels.
const (
	labelOperation = "operation"
	labelCode      = "code"
	labelClass     = "class"
	labelStart     = "start"
	labelPhase     = "phase"
	labelReason    = "reason"
)

// New returns metrics that have counted nothing yet.
func New(options ...Option) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	m.calls = m.counter("calls_total", "Calls that have been answered.", labelOperation, labelCode, labelClass)
	m.inFlight = m.gauge("calls_in_flight", "Calls that have begun and are not answered, streams among them.", labelOperation)
	m.took = m.histogram("call_duration_seconds", "How long calls took, until their answer was complete.", callBuckets, labelOperation)
	m.received = m.counter("received_bytes_total", "Bytes of the bodies of requests, and of what streams received.", labelOperation)
	m.sent = m.counter("sent_bytes_total", "Bytes of the bodies of answers, and of what streams sent.", labelOperation)
	m.refusals = m.counter("refusals_total", "Requests that were not let in, and so became no calls.", labelCode, labelClass)
	m.launches = m.counter("launches_total", "Sandboxes that were made, found or resumed, or failed to be.", labelStart, labelClass)
	m.launchTook = m.histogram("launch_duration_seconds", "How long launches took that succeeded.", launchBuckets, labelStart)
	m.phase = m.histogram("launch_phase_duration_seconds", "How long the phases of launches took that came to their end.", launchBuckets, labelStart, labelPhase)
	m.misses = m.counter("warm_misses_total", "Launches that got no pod of the pool that they were to take one from.", labelReason)
	m.swept = m.counter("swept_total", "Sandboxes of which the gateway swept something.", labelReason)
	m.unrecorded = prometheus.NewCounter(opts("audit_failures_total", "Calls that were not made because the audit log could not be written."))
	m.registry.MustRegister(m.unrecorded, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.countEgress()
	for _, option := range options {
		option(m)
	}
	return m
}

// Handler serves the metrics. It is not for callers of the gateway: they learn of each other by it.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: scrapesInFlight, Timeout: scrapeTime})
}

// Swept counts a sandbox of which the gateway swept something. There must be few reasons, such
// as "expired": each is a series.
func (m *Metrics) Swept(reason string) { m.swept.WithLabelValues(reason).Inc() }

// seconds is a duration as a metric has it.
func seconds(d time.Duration) float64 { return max(0, d.Seconds()) }

// opts names a metric.
func opts(name, help string) prometheus.CounterOpts {
	return prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}
}

const namespace = "podagent_gateway"

func (m *Metrics) counter(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(opts(name, help), labels)
	m.registry.MustRegister(c)
	return c
}

func (m *Metrics) gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts(opts(name, help)), labels)
	m.registry.MustRegister(g)
	return g
}

func (m *Metrics) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}, labels)
	m.registry.MustRegister(h)
	return h
}
