package launcher

import (
	"fmt"
	"time"
)

// Take says how Launch takes the pod of a sandbox, be it new or there already,
// and how the open sandbox holds it.
type Take struct {
	// OnStale is what Launch does about a pod that has ended: by itself, at its
	// deadline, or by eviction.
	OnStale OnStale
	// OnDrift is what Launch does about a pod that differs from the Spec.
	OnDrift OnDrift
	// Exclusive keeps other exclusive owners out, by a Lease of the pod's name:
	// they get [ErrOwned]. Close releases it, and it ends 30 s after its owner
	// died. The clocks of orchestrators must not differ by 10 s.
	Exclusive bool
	// ReadyTimeout bounds the time until the agent answers, an image pull
	// included. 0 means DefaultReadyTimeout. Open and Resume wait for as long as
	// the Launch that made the pod.
	ReadyTimeout time.Duration
	// Heartbeat is how often the open sandbox says in its pod that it is needed,
	// for [Kubernetes.Reap]: 1 s or more. 0 means DefaultHeartbeat, as after Open
	// and Resume, and HeartbeatOff never.
	Heartbeat time.Duration
}

// The times of a [Take].
const (
	// DefaultReadyTimeout leaves time to pull an image of a gigabyte.
	DefaultReadyTimeout = 2 * time.Minute
	// DefaultHeartbeat is often enough for a reaper that counts in minutes.
	DefaultHeartbeat = time.Minute
	// HeartbeatOff leaves the heartbeat to the caller: [Kubernetes.Heartbeat].
	HeartbeatOff time.Duration = -1
)

// OnStale is what Launch does about a pod that has ended.
type OnStale string

const (
	// StaleError, the default, returns [ErrStale].
	StaleError OnStale = "error"
	// StaleRecreate deletes the pod, with its workspace unless that is kept, and
	// makes another.
	StaleRecreate OnStale = "recreate"
)

// OnDrift is what Launch does about a pod that differs from the Spec.
type OnDrift string

const (
	// DriftSay, the default, adopts the pod and lists the differences in
	// Sandbox.Drift.
	DriftSay OnDrift = "say"
	// DriftError returns [ErrDrift].
	DriftError OnDrift = "error"
)

// checkTimes checks the times of a Take.
func (t *Take) checkTimes() *SpecError {
	switch {
	case t.ReadyTimeout < 0:
		return &SpecError{"Take.ReadyTimeout", fmt.Sprintf("is %v: it must not be negative", t.ReadyTimeout)}
	case t.Heartbeat != HeartbeatOff && (t.Heartbeat < 0 || t.Heartbeat > 0 && t.Heartbeat < minHeartbeat):
		return &SpecError{"Take.Heartbeat", fmt.Sprintf("is %v: it is at least %v, or HeartbeatOff", t.Heartbeat, minHeartbeat)}
	}
	return nil
}
