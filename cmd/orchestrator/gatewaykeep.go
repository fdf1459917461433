package main

import (
	"context"
	"net/http"

	"github.com/podagent/podagent/cmd/orchestrator/internal/serving"
	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher"
)

// keeper keeps the connections of calls when all are in use. Those who have no token yield to
// newcomers, and requests that were not let in go first.
type keeper struct{}

// Arrive implements [gateway.Follower].
func (keeper) Arrive(ctx context.Context, a gateway.Act, _ *http.Request) context.Context {
	if a.ByToken {
		serving.Keep(ctx)
	} else {
		serving.Yield(ctx)
	}
	return ctx
}

// Launch implements [gateway.Follower].
func (keeper) Launch(ctx context.Context, _ bool) (context.Context, func(*launcher.Sandbox, string)) {
	return ctx, func(*launcher.Sandbox, string) {}
}

// Refuse implements [gateway.Follower].
func (keeper) Refuse(context.Context, int, string) {}

// Begin implements [gateway.Observer].
func (keeper) Begin(context.Context, gateway.Act) error { return nil }

// End implements [gateway.Observer].
func (keeper) End(context.Context, gateway.Act, gateway.Outcome) {}
