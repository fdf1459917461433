package launcher

import (
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// ResourceProcesses names how many processes and threads, in Local.Limits.
const ResourceProcesses corev1.ResourceName = "processes"

// The smallest limits of a local sandbox, of which its agent needs a part, and the largest.
const (
	leastMemory, mostMemory       = 64 << 20, 1 << 50 // 64 MiB, 1 PiB
	leastProcesses, mostProcesses = 64, 1 << 22       // what Linux has at most
	leastCPU, mostCPU             = 0.01, 1 << 16     // the kernel's least; more processors than there are
)

// checkLimits checks the limits of new sandboxes. 0 is none.
func (l *Local) checkLimits() error {
	for name, quantity := range l.Limits {
		var least, most float64
		switch name {
		case corev1.ResourceMemory:
			least, most = leastMemory, mostMemory
		case ResourceProcesses:
			least, most = leastProcesses, mostProcesses
		case corev1.ResourceCPU:
			least, most = leastCPU, mostCPU
		default:
			return fmt.Errorf("Local.Limits: %q is not cpu, memory or processes", name)
		}
		if n := quantity.AsApproximateFloat64(); n != 0 && !(least <= n && n <= most) {
			return fmt.Errorf("Local.Limits: %s is %s: it is 0, or between %s and %s", name, quantity.String(), limitText(name, least), limitText(name, most))
		}
	}
	if len(l.Limits) > 0 && !l.isolates() {
		return fmt.Errorf("Local.Limits: a sandbox that nothing isolates could lift them: %w", ErrIsolation)
	}
	return nil
}

// limitText returns a limit as Local.Limits may have it, such as 64Mi.
func limitText(name corev1.ResourceName, limit float64) string {
	if name == corev1.ResourceMemory {
		return resource.NewQuantity(int64(limit), resource.BinarySI).String()
	}
	return resource.NewMilliQuantity(int64(math.Round(limit*1000)), resource.DecimalSI).String()
}
