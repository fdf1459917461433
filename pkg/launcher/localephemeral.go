package launcher

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/podagent/podagent/pkg/podapi/isolation"
)

// The least and the most of Local.Ephemeral: an agent and a few files, and more memory than there is.
const leastEphemeral, mostEphemeral = 1 << 20, mostMemory

// checkEphemeral checks whether a new sandbox's files can be in memory, if they are to be.
func (l *Local) checkEphemeral(spec *Spec) error {
	memory := l.Limits[corev1.ResourceMemory]
	switch n := l.Ephemeral; {
	case n == 0:
		return nil
	case n < leastEphemeral || n > mostEphemeral:
		return fmt.Errorf("Local.Ephemeral: it is %s: it is 0, or between %s and %s", bytesText(n), bytesText(leastEphemeral), bytesText(mostEphemeral))
	case !memory.IsZero() && memory.Value() < n:
		return fmt.Errorf("Local.Ephemeral: %s does not fit into the memory of Local.Limits, %s", bytesText(n), memory.String())
	case !l.isolation().MayBe(isolation.Namespaces):
		return fmt.Errorf("Local.Ephemeral: only a sandbox in namespaces can have its files in memory, with a bound and an end: %w", ErrIsolation)
	case spec.Workdir != "":
		return &SpecError{"Workdir", "is set, but the workdir of an ephemeral sandbox is in memory"}
	}
	return nil
}

func bytesText(n int64) string { return limitText(corev1.ResourceMemory, float64(n)) }

// checkAdopted returns an error if a sandbox that exists has its files on disk, and they are to be in memory.
func (l *Local) checkAdopted(ephemeral int64) error {
	if l.Ephemeral > 0 && ephemeral == 0 {
		return fmt.Errorf("%w: it exists, and its files are on disk", ErrIsolation)
	}
	return nil
}

// ErrEnded says that the agent of an ephemeral sandbox has ended, and so the sandbox: see [Local].Ephemeral. It is
// an [ErrStale].
var ErrEnded error = endedError{}

type endedError struct{}

func (endedError) Error() string {
	return "the sandbox has ended: its agent is gone, and its files with it, which were in memory"
}

// Is makes the error one of the class [ErrStale].
func (endedError) Is(err error) bool { return err == ErrStale }
