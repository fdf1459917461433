package launcher

import "time"

// What a zero field means, each with its reason.
const (
	DefaultCPU, DefaultMemory              = "10m", "128Mi"      // requested: a small build; memory decides how many pods fit on a node
	DefaultCPULimit, DefaultMemoryLimit    = "4", "4Gi"          // a large build or a browser; a smaller node never throttles a pod
	DefaultWorkspaceSize, DefaultDiskLimit = "10Gi", "10Gi"      // a large repository and its build; beside it home, /tmp, the container's files, its log
	DefaultActiveDeadline                  = 8 * time.Hour       // a working day, for sandboxes that everybody forgot
	DefaultReadyTimeout                    = 2 * time.Minute     // time to pull an image of a gigabyte
	DefaultHeartbeat                       = time.Minute         // often enough for a reaper that counts in minutes
	DefaultStaleAfter                      = 15 * time.Minute    // fifteen heartbeats
	DefaultGitTimeout                      = 300 * time.Second   // a gigabyte of history at some megabytes a second
	DefaultIdentitySecret                  = "podagent-identity" // shared by the orchestrators in a cluster
	DefaultEphemeral                       = 1 << 30             // bytes that a flag without a size means: a repository with a build, in an eighth of a laptop's memory
	DefaultLocalProcesses                  = 4096                // a parallel build, a browser and its threads; a tenth of what a machine takes

	HeartbeatOff time.Duration = -1 // for Take.Heartbeat: only [Kubernetes.Heartbeat] sends any
)
