package launcher

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Take says how Launch takes a sandbox's pod, new or existing, and how the open sandbox
// holds it. [Local] ignores it.
type Take struct {
	OnStale OnStale
	OnDrift OnDrift
	Pool    string // names a pool (package pool); a new sandbox takes a pod of it that fits
	// Exclusive keeps other exclusive owners out ([ErrOwned]), by a Lease of the pod's name. Close releases
	// it; it ends 30 s after its owner died. The clocks of orchestrators must not differ by 10 s.
	Exclusive bool
	// ReadyTimeout bounds the time until the agent answers, an image pull included. 0 means
	// DefaultReadyTimeout. Open and Resume wait as long as the Launch did that made the pod.
	ReadyTimeout time.Duration
	// Heartbeat is how often the open sandbox says that it is needed, for [Kubernetes.Reap]: 1 s or
	// more. 0 means DefaultHeartbeat, which Open and Resume use; HeartbeatOff sends none.
	Heartbeat time.Duration
}

// OnStale is what Launch does about a pod that has [Ended].
type OnStale string

const (
	StaleError    OnStale = "error"    // the default: return [ErrStale]
	StaleRecreate OnStale = "recreate" // make another pod, with another workspace unless that is kept
)

// OnDrift is what Launch does about a pod that differs from the Spec.
type OnDrift string

const (
	DriftSay   OnDrift = "say"   // the default: adopt the pod and set Sandbox.Drift
	DriftError OnDrift = "error" // return [ErrDrift]
)

// check checks the name and the durations of a Take.
func (t *Take) check() *SpecError {
	problems := validation.IsDNS1123Label(t.Pool)
	switch {
	case t.Pool != "" && len(problems) > 0:
		return &SpecError{"Take.Pool", fmt.Sprintf("is %q: %s", t.Pool, problems[0])}
	case t.ReadyTimeout < 0:
		return &SpecError{"Take.ReadyTimeout", fmt.Sprintf("is %v: it must not be negative", t.ReadyTimeout)}
	case t.Heartbeat != HeartbeatOff && (t.Heartbeat < 0 || t.Heartbeat > 0 && t.Heartbeat < minHeartbeat):
		return &SpecError{"Take.Heartbeat", fmt.Sprintf("is %v: it is at least %v, or HeartbeatOff", t.Heartbeat, minHeartbeat)}
	}
	return nil
}
