package launcher

import "time"

// What a zero field means, each with its reason.
const (
	// Requested: a small build. Memory decides how many pods fit on a node.
	DefaultCPU, DefaultMemory = "10m", "128Mi"
	// A large build or a browser. A smaller node never throttles a pod.
	DefaultCPULimit, DefaultMemoryLimit = "4", "4Gi"
	// A large repository and its build; beside it home, /tmp, the container's files and its log.
	DefaultWorkspaceSize, DefaultDiskLimit = "10Gi", "10Gi"

	DefaultActiveDeadline = 8 * time.Hour       // a working day, for sandboxes that everybody forgot
	DefaultReadyTimeout   = 2 * time.Minute     // time to pull an image of a gigabyte
	DefaultHeartbeat      = time.Minute         // often enough for a reaper that counts in minutes
	DefaultStaleAfter     = 15 * time.Minute    // fifteen heartbeats
	DefaultGitTimeout     = 300 * time.Second   // a gigabyte of history at some megabytes a second
	DefaultIdentitySecret = "podagent-identity" // shared by the orchestrators in a cluster

	// Bytes that a flag without a size means: a repository with a build, in an eighth of a laptop's memory.
	DefaultEphemeral = 1 << 30
	// A parallel build, a browser and its threads; a tenth of what a machine takes.
	DefaultLocalProcesses = 4096

	HeartbeatOff time.Duration = -1 // for Take.Heartbeat: only [Kubernetes.Heartbeat] sends any
)
