package tracing

import (
	"context"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchtrace"
)

// part makes a span of a part of a call that is over.
func (t *Traces) part(ctx context.Context, name string, from, to time.Time, options ...trace.SpanStartOption) trace.Span {
	_, span := t.tracer.Start(ctx, name, append(options, trace.WithTimestamp(from))...)
	span.End(trace.WithTimestamp(to))
	return span
}

// withCommand are the operations that start a command.
var withCommand = []string{"exec", "terminal", "podapi.v1.Processes/Exec"}

// command makes the span of the command that an act started, by the conventions for callers of
// programs.
func (t *Traces) command(ctx context.Context, a gateway.Act, o gateway.Outcome, c *call) {
	if !slices.Contains(withCommand, a.Operation) || len(a.Args) == 0 && o.Started.IsZero() {
		return
	}
	began := c.began
	if !o.Started.IsZero() {
		began = o.Started
	}
	_, span := t.tracer.Start(ctx, "command", trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(began),
		trace.WithAttributes(semconv.ProcessCommandArgs(texts(a.Args)...)))
	if name := executable(a.Args); name != "" {
		span.SetAttributes(semconv.ProcessExecutableName(name))
	}
	if o.PID != 0 {
		span.SetAttributes(semconv.ProcessPID(o.PID))
	}
	class := o.Class
	if o.Exit != nil {
		span.SetAttributes(semconv.ProcessExitCode(*o.Exit))
		if *o.Exit != 0 && class == "" {
			class = "exit"
		}
	}
	if class != "" {
		span.SetAttributes(semconv.ErrorTypeKey.String(text(class)))
		span.SetStatus(statusError, "")
	}
	span.End()
}

// tool makes the span of the tool that an act used, by the conventions for generative AI.
func (t *Traces) tool(ctx context.Context, a gateway.Act, o gateway.Outcome, c *call) {
	name, ok := strings.CutPrefix(a.Operation, toolPrefix)
	if !ok || name == "end" || strings.Contains(name, "/") { // which ends a session, or reads a resource
		return
	}
	_, span := t.tracer.Start(ctx, "execute_tool "+short(name), trace.WithTimestamp(c.began),
		trace.WithAttributes(attribute.String("gen_ai.operation.name", "execute_tool"), attribute.String("gen_ai.tool.name", short(name)), attribute.String("gen_ai.tool.type", "function")))
	if o.Class != "" {
		span.SetAttributes(semconv.ErrorTypeKey.String(text(o.Class)))
		span.SetStatus(statusError, "")
	}
	span.End()
}

// Launch implements [gateway.Follower].
func (t *Traces) Launch(ctx context.Context, resume bool) (context.Context, func(*launcher.Sandbox, string)) {
	name := "launch"
	if resume {
		name = "resume"
	}
	ctx, span := t.tracer.Start(ctx, name)
	if !span.IsRecording() {
		return ctx, func(*launcher.Sandbox, string) {}
	}
	l := &launch{began: time.Now()}
	traced := launchtrace.WithTrace(ctx, &launchtrace.Trace{
		GotPod:   func(p launchtrace.Pod) { l.pod, l.got = p, time.Now() },
		Answered: func() { l.answered = time.Now() },
		Ready:    func() { l.ready = time.Now() },
	})
	return traced, func(s *launcher.Sandbox, class string) {
		t.phases(ctx, l)
		span.SetAttributes(l.attributes(s)...)
		if class != "" {
			span.SetAttributes(semconv.ErrorTypeKey.String(text(class)))
			span.SetStatus(statusError, class)
		}
		span.End()
	}
}

// launch is how far a launch has come. What has not happened is zero.
type launch struct {
	pod                         launchtrace.Pod
	began, got, answered, ready time.Time
}

// phases makes the spans of the phases of a launch that are over.
func (t *Traces) phases(ctx context.Context, l *launch) {
	gets := map[launchtrace.Start]string{launchtrace.Warm: "claim pod", launchtrace.Cold: "create pod", launchtrace.Adopted: "adopt pod"}
	from := l.began
	for _, phase := range []struct {
		name string
		to   time.Time
	}{{gets[l.pod.Start], l.got}, {"wait for agent", l.answered}, {"prepare", l.ready}} {
		if phase.to.IsZero() {
			return
		}
		t.part(ctx, phase.name, from, phase.to)
		from = phase.to
	}
}

func (l *launch) attributes(s *launcher.Sandbox) (all []attribute.KeyValue) {
	if l.pod.Name != "" {
		all = append(all, semconv.K8SPodName(l.pod.Name), attribute.String("podagent.start", string(l.pod.Start)))
	}
	if s != nil && s.Start.Cold != "" {
		all = append(all, attribute.String("podagent.cold", text(s.Start.Cold)))
	}
	return all
}
