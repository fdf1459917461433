package gateway

import "time"

// What tests of other packages see.
var (
	LauncherID = launcherID
	NameOf     = nameOf
)

// SetSilence sets after which time the caller of a terminal is asked for a sign of life.
func SetSilence(g *Gateway, d time.Duration) { g.silence = d }

// SetPatience sets how long callers wait for a sandbox.
func SetPatience(g *Gateway, d time.Duration) { g.held.patience = d }
