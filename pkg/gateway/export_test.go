package gateway

import "time"

// What tests of other packages see.
var (
	LauncherID = launcherID
	NameOf     = nameOf
)

// SetPatience sets how long callers wait for a sandbox.
func SetPatience(g *Gateway, d time.Duration) { g.held.patience = d }
