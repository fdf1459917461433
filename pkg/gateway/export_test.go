package gateway

import (
	"context"
	"time"
)

// What tests of other packages see.
var (
	LauncherID = launcherID
	NameOf     = nameOf

	NewSessionID = newSessionID
)

// SetSilence sets after which time the caller of a terminal is asked for a sign of life.
func SetSilence(g *Gateway, d time.Duration) { g.silence = d }

// SetPatience sets how long callers wait for a sandbox.
func SetPatience(g *Gateway, d time.Duration) { g.held.patience = d }

// RemoveIdleSandboxes looks for sandboxes of sessions that have been idle for so long, until ctx ends.
func RemoveIdleSandboxes(ctx context.Context, g *Gateway, idle time.Duration) {
	g.mcp.removeIdle(ctx, idle)
}
