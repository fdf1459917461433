package launcher

import "time"

// What a zero field means, each with its reason.
const (
	DefaultCPU, DefaultMemory              = "10m", "128Mi"      // requested: a small build; memory decides how many fit
	DefaultCPULimit, DefaultMemoryLimit    = "4", "4Gi"          // a large build or a browser
	DefaultWorkspaceSize, DefaultDiskLimit = "10Gi", "10Gi"      // a large repository and its build; home, /tmp, the log
	DefaultActiveDeadline                  = 8 * time.Hour       // a working day, for sandboxes that everybody forgot
	DefaultReadyTimeout                    = 2 * time.Minute     // time to pull an image of a gigabyte
	DefaultHeartbeat                       = time.Minute         // often enough for a reaper that counts in minutes
	DefaultStaleAfter                      = 15 * time.Minute    // fifteen heartbeats
	DefaultGitTimeout                      = 300 * time.Second   // a gigabyte of history at some megabytes a second
	DefaultIdentitySecret                  = "podagent-identity" // shared by the orchestrators in a cluster
	DefaultEphemeral                       = 1 << 30             // bytes: an eighth of a laptop's memory, for a build
	DefaultLocalProcesses                  = 4096                // a parallel build, a browser and its threads

	HeartbeatOff time.Duration = -1 // for Take.Heartbeat: only [Kubernetes.Heartbeat] sends any
)
