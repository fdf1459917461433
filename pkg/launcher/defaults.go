package launcher

import "time"

// What a zero field means, each with its reason.
const (
	DefaultMemory         = "128Mi"             // requested: what a small build needs, so that nodes do not fill up
	DefaultClaimSize      = "10Gi"              // of a workspace that is kept
	DefaultActiveDeadline = 8 * time.Hour       // a working day, for sandboxes that everybody forgot
	DefaultReadyTimeout   = 2 * time.Minute     // time to pull an image of a gigabyte
	DefaultHeartbeat      = time.Minute         // often enough for a reaper that counts in minutes
	DefaultStaleAfter     = 15 * time.Minute    // fifteen heartbeats
	DefaultGitTimeout     = 300 * time.Second   // a gigabyte of history at some megabytes a second
	DefaultIdentitySecret = "podagent-identity" // shared by the orchestrators in a cluster

	HeartbeatOff time.Duration = -1 // for Take.Heartbeat: only [Kubernetes.Heartbeat] sends any
)
