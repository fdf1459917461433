package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel"
	"golang.org/x/time/rate"

	"github.com/podagent/podagent/cmd/orchestrator/internal/settings"
	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/metrics"
	"github.com/podagent/podagent/pkg/gateway/tracing"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// telemetryFlags say what operators see of a gateway.
type telemetryFlags struct{ perTenant bool }

func (f *telemetryFlags) define(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.perTenant, "metrics-per-tenant", false, "count the calls of each tenant in /metrics, too: some series more for each")
	settings.Mark(flags, "metrics-per-tenant")
}

// telemetry is what operators see of a gateway: metrics, and traces if the variables of OpenTelemetry
// ask for them.
type telemetry struct {
	metrics *metrics.Metrics
	traces  *tracing.Traces // nil for none
}

func (f *telemetryFlags) begin(ctx context.Context, a *app) (*telemetry, error) {
	otel.SetErrorHandler(exportErrors(a.logger()))
	traces, err := tracing.FromEnv(ctx, wire.Version())
	if err != nil {
		return nil, usageError{err}
	}
	var options []metrics.Option
	if f.perTenant {
		options = append(options, metrics.PerTenant)
	}
	return &telemetry{metrics.New(options...), traces}, nil
}

// observers returns those of a gateway. They see failures of those that write the audit log.
func (t *telemetry) observers(audit []gateway.Observer) (all []gateway.Observer) {
	all = append(all, t.metrics)
	if t.traces != nil {
		all = append(all, t.traces)
	}
	for _, log := range audit {
		all = append(all, t.metrics.Audit(log))
	}
	return all
}

// end exports the traces that are left.
func (t *telemetry) end(ctx context.Context) {
	if t.traces == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, exportEnd)
	defer cancel()
	if err := t.traces.Shutdown(ctx); err != nil {
		otel.Handle(errors.Join(errors.New("traces are lost"), err))
	}
}

// exportErrors logs why traces are not exported, but not for each batch.
func exportErrors(log *slog.Logger) otel.ErrorHandlerFunc {
	sometimes := &rate.Sometimes{First: 1, Interval: exportErrorInterval}
	return func(err error) { sometimes.Do(func() { log.Warn("cannot export traces", "error", err) }) }
}
