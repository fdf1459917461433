package launcher

import "time"

// What a zero field means, each with its reason.
const (
	DefaultCPU            = "10m"               // requested: so little that the memory decides how many pods fit on a node
	DefaultMemory         = "128Mi"             // requested: what a small build needs, so that nodes do not fill up
	DefaultCPULimit       = "4"                 // a build in parallel; a node with fewer cores never throttles a pod
	DefaultMemoryLimit    = "4Gi"               // a large build or a browser
	DefaultDiskLimit      = "10Gi"              // beside the workspace: home, /tmp, the container's own files and its log
	DefaultWorkspaceSize  = "10Gi"              // a large repository with what is built from it
	DefaultActiveDeadline = 8 * time.Hour       // a working day, for sandboxes that everybody forgot
	DefaultReadyTimeout   = 2 * time.Minute     // time to pull an image of a gigabyte
	DefaultHeartbeat      = time.Minute         // often enough for a reaper that counts in minutes
	DefaultStaleAfter     = 15 * time.Minute    // fifteen heartbeats
	DefaultGitTimeout     = 300 * time.Second   // a gigabyte of history at some megabytes a second
	DefaultIdentitySecret = "podagent-identity" // shared by the orchestrators in a cluster

	HeartbeatOff time.Duration = -1 // for Take.Heartbeat: only [Kubernetes.Heartbeat] sends any
)
