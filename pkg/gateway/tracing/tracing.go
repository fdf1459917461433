// Package tracing makes OpenTelemetry traces of what callers of a gateway do.
//
// Each call is a span by the semantic conventions, below the caller's own if the request has a
// traceparent (W3C Trace Context). Below it are spans for what it causes:
//
//	exec                     the call: HTTP, or RPC for calls of podapi
//	├─ launch, resume        a sandbox is made, or resumed
//	│  ├─ claim pod          it gets a pod out of a pool; or create pod, adopt pod
//	│  ├─ wait for agent     the agent in the pod answers
//	│  └─ prepare            what is left, such as a checkout
//	├─ command               the command that the call started, as long as the call waits
//	└─ execute_tool NAME     the tool that the call (of the Model Context Protocol) uses
//
// [FromEnv] exports by OTLP as the usual variables say, and [New] makes spans by any provider.
package tracing

import (
	"context"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/podagent/podagent/pkg/gateway"
)

// Traces make spans of the acts of a gateway's callers. They implement [gateway.Follower].
//
// A span says who called (podagent.tenant), which sandbox it was about (podagent.sandbox), and by which
// id the answer and the audit log name the act (podagent.request_id), and of which class its problem is
// (podagent.class). Of headers it has Host and the user agent alone, of a URL no query, and of files and commands what [gateway.Detail] has of them.
//
// A server in a sandbox gets the traceparent of the gateway's span, if that is recorded, and else
// the caller's own.
type Traces struct {
	tracer   trace.Tracer
	shutdown func(context.Context) error
}

var _ gateway.Follower = (*Traces)(nil)

// New returns what makes spans by a provider, which the caller ends.
func New(p trace.TracerProvider) *Traces {
	return &Traces{tracer: p.Tracer(scope), shutdown: func(context.Context) error { return nil }}
}

const scope = "github.com/podagent/podagent/pkg/gateway/tracing"

// Shutdown exports the spans that are left, until ctx ends.
func (t *Traces) Shutdown(ctx context.Context) error { return t.shutdown(ctx) }

// call is what is remembered of a call under way.
type call struct {
	request *http.Request
	began   time.Time
}

type callKey struct{}

// Arrive implements [gateway.Follower].
func (t *Traces) Arrive(ctx context.Context, a gateway.Act, r *http.Request) context.Context {
	options := []trace.SpanStartOption{trace.WithTimestamp(a.At), trace.WithSpanKind(trace.SpanKindServer)}
	remote := parentOf(r)
	switch {
	case !remote.IsValid():
	case a.ByToken:
		ctx = trace.ContextWithRemoteSpanContext(ctx, remote)
	default: // anybody can send it
		options = append(options, trace.WithNewRoot(), trace.WithLinks(trace.Link{SpanContext: remote}))
	}
	ctx, span := t.tracer.Start(ctx, "call", options...)
	if !span.IsRecording() {
		return ctx
	}
	if !a.ByToken {
		r.Header.Del("Tracestate") // it is of another trace
	}
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(r.Header))
	return context.WithValue(ctx, callKey{}, &call{request: r})
}

// parentOf returns the caller's span, if the request names one.
func parentOf(r *http.Request) trace.SpanContext {
	if r.Header.Get("Traceparent") == "" {
		return trace.SpanContext{}
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.HeaderCarrier(r.Header))
	parent := trace.SpanContextFromContext(ctx)
	if state := parent.TraceState(); len(state.String()) > stateLength {
		parent = parent.WithTraceState(trace.TraceState{})
	}
	return parent
}

// Begin implements [gateway.Observer].
func (t *Traces) Begin(ctx context.Context, a gateway.Act) error {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		c.began = time.Now()
		span := trace.SpanFromContext(ctx)
		span.SetName(nameOf(a, c.request))
		span.SetAttributes(attributesOf(a, c.request)...)
	}
	return nil
}

// End implements [gateway.Observer].
func (t *Traces) End(ctx context.Context, a gateway.Act, o gateway.Outcome) {
	c, ok := ctx.Value(callKey{}).(*call)
	if !ok {
		return // the sampler did not want it
	}
	span := trace.SpanFromContext(ctx)
	if c.began.IsZero() { // another observer let it not begin
		_ = t.Begin(ctx, a)
	}
	t.command(ctx, a, o, c)
	t.tool(ctx, a, o, c)
	rpc := isRPC(a, c.request)
	span.SetAttributes(outcomeOf(o, rpc)...)
	if failed(o, rpc) {
		span.SetStatus(statusError, o.Class)
	}
	span.End()
}

// Refuse implements [gateway.Follower]. Requests that are not let in have no spans: anybody can send
// them.
func (*Traces) Refuse(context.Context, int, string) {}
