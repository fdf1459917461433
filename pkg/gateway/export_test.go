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

// SetSilence sets after which time streams give a sign of life, and the callers of terminals are asked for one.
func SetSilence(g *Gateway, d time.Duration) { g.silence = d }

// SetHandover sets for how long a watch goes on whose caller is to watch elsewhere.
func SetHandover(g *Gateway, d time.Duration) { g.handover = d }

// SetPatience sets how long callers wait for a sandbox.
func SetPatience(g *Gateway, d time.Duration) { g.held.patience = d }

// RemoveIdleSandboxes looks for sandboxes of sessions that have been idle for so long, until ctx ends.
func RemoveIdleSandboxes(ctx context.Context, g *Gateway, idle time.Duration) {
	g.mcp.removeIdle(ctx, idle)
}

// KeepNoRecords has a gateway without observers of its own keep nothing of what callers do.
func KeepNoRecords(g *Gateway) { g.Observers = nil }
