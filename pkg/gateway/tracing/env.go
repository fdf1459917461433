package tracing

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// FromEnv returns traces that are exported by OTLP as the variables of OpenTelemetry say; nil if none
// asks for it. These count:
//
//   - OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, and the others that begin so,
//     say where to. The protocol is http/protobuf unless …_PROTOCOL is grpc.
//   - OTEL_TRACES_EXPORTER=otlp exports without an endpoint, too: to this machine. Any other exports
//     nothing, and neither does OTEL_SDK_DISABLED=true.
//   - OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say whose spans they are.
//   - OTEL_TRACES_SAMPLER says which to record, OTEL_BSP_… how many wait to be exported, and
//     OTEL_SPAN_… and OTEL_ATTRIBUTE_… how large one can be.
//
// The exporter connects later. While it cannot, spans are dropped, and calls do not wait.
func FromEnv(ctx context.Context, version string) (*Traces, error) {
	if !asked() {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	client, err := client()
	if err != nil {
		return nil, err
	}
	exporter, err := otlptrace.New(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("exporting traces: %w", err)
	}
	whose, err := resource.New(ctx,
		resource.WithHost(),
		resource.WithTelemetrySDK(),
		resource.WithAttributes(semconv.ServiceName("podagent-gateway"), semconv.ServiceVersion(version)),
		resource.WithFromEnv(),
	)
	if err != nil && whose == nil {
		return nil, fmt.Errorf("describing this service for traces: %w", err)
	}
	limits := sdktrace.NewSpanLimits()
	if limits.AttributeValueLengthLimit < 0 {
		limits.AttributeValueLengthLimit = valueLength
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(whose), sdktrace.WithRawSpanLimits(limits))
	t := New(provider)
	t.shutdown = provider.Shutdown
	return t, nil
}

// asked reports whether the variables ask for traces.
func asked() bool {
	if off, _ := strconv.ParseBool(os.Getenv("OTEL_SDK_DISABLED")); off {
		return false
	}
	if exporter := os.Getenv("OTEL_TRACES_EXPORTER"); exporter != "" {
		return exporter == "otlp"
	}
	return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

// client returns what speaks the protocol that the variables name.
func client() (otlptrace.Client, error) {
	protocol := cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL"), "http/protobuf")
	switch strings.TrimSpace(protocol) {
	case "grpc":
		return otlptracegrpc.NewClient(), nil
	case "http/protobuf":
		return otlptracehttp.NewClient(), nil
	}
	return nil, fmt.Errorf("the protocol of traces is %q, and must be grpc or http/protobuf", protocol)
}
