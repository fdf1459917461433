package launcher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/launcher/internal/limitgroup"
)

// marker is the environment variable that identifies a sandbox's processes when its
// agent has died and cannot end them. It holds the path of the sandbox's directory.
//
// It comes first in the agent's environment, and the agent puts it in front of those of
// its commands, because only the beginning of an environment is read.
func (p place) marker() string { return markerEnv + "=" + p.dir }

// markerEnv is the name of the marker.
const markerEnv = "PODAGENT_SANDBOX"

// traces are how the processes of an agent are found that has ended without them, besides the marker.
type traces struct {
	Group string `json:"group,omitempty"` // the path of its control group
	// Lineage is the number that they bear: see lineage_linux.go. 0 is none.
	Lineage uint64 `json:"lineage,omitempty"`
}

// remember writes into the record how the processes of the agent that starts next are found.
func (p *place) remember(ctx context.Context, group *limitgroup.Group) error {
	p.Started, p.Traces = true, traces{Lineage: newLineage()}
	if group != nil {
		p.Traces.Group = group.Path
	}
	return p.write(ctx)
}

// endLeftovers kills the processes of a sandbox that has no agent any more. They
// may start others meanwhile, so it looks until there are none. Doubtful ones may be another sandbox's, and
// come again and again: a few looks at them must do.
func endLeftovers(ctx context.Context, p place) error {
	if p.Traces.Group == "" {
		return endByLineage(ctx, p)
	}
	err := limitgroup.End(ctx, p.Traces.Group)
	if err != nil {
		err = fmt.Errorf("ending what the agent left: %w", err)
	}
	return errors.Join(err, endByLineage(ctx, p))
}

// endByLineage kills the processes that are certainly or doubtfully of the sandbox.
func endByLineage(ctx context.Context, p place) error {
	doubt, cancel := context.WithTimeout(ctx, doubtTimeout)
	defer cancel()
	for scan := range leftoverScans {
		if err := ctx.Err(); err != nil {
			return err
		}
		left, err := killLeftovers(p)
		err = errors.Join(err, left[certain].await(ctx, stopTimeout))
		_ = left[doubtful].await(doubt, doubtTimeout)
		if err != nil {
			return fmt.Errorf("ending what the agent left: %w", err)
		}
		if left[certain].count == 0 && (left[doubtful].count == 0 || scan+1 >= doubtScans) {
			return nil
		}
	}
	return errors.New("the sandbox starts processes faster than they can be ended")
}

// killed are processes that were killed, and descriptors of the first of them.
type killed struct {
	count  int
	pidfds []int
}

// add keeps a descriptor, or closes it. A sandbox may have more processes than this program may have files.
func (k *killed) add(pidfd int) {
	if k.count++; k.count > leftoverWaits {
		unix.Close(pidfd)
		return
	}
	k.pidfds = append(k.pidfds, pidfd)
}

// kill kills the processes of the descriptors.
func (k *killed) kill() (err error) {
	for _, pidfd := range k.pidfds {
		if killErr := unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0); !errors.Is(killErr, unix.ESRCH) {
			err = errors.Join(err, killErr)
		}
	}
	return err
}

// await waits for the ends of processes, for each up to a time, and closes the descriptors.
func (k *killed) await(ctx context.Context, each time.Duration) (err error) {
	for _, pidfd := range k.pidfds {
		_, waitErr := awaitEnd(ctx, pidfd, each)
		err = errors.Join(err, waitErr)
	}
	k.close()
	return err
}

func (k *killed) close() {
	for _, pidfd := range k.pidfds {
		unix.Close(pidfd)
	}
}

// killLeftovers looks at all processes once, and kills those that belong to the sandbox, certainly or doubtfully. It
// leaves out processes of other users, which it cannot look at.
func killLeftovers(p place) (left [certain + 1]killed, err error) {
	f := newFamily(p)
	pids, err := f.processes.PIDs()
	if err != nil {
		return left, fmt.Errorf("cannot list the processes: %w", err)
	}
	for _, pid := range pids {
		kin := f.kin(pid)
		if kin == stranger {
			continue
		}
		pidfd, openErr := unix.PidfdOpen(pid, 0)
		if openErr == nil {
			// The pid may belong to another process by now.
			if kin = f.kin(pid); kin == stranger {
				unix.Close(pidfd)
				continue
			}
			openErr = unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0)
			left[kin].add(pidfd)
		}
		if kin == certain && openErr != nil && !errors.Is(openErr, unix.ESRCH) { // which says that it has ended
			err = errors.Join(err, fmt.Errorf("process %d: %w", pid, openErr))
		}
	}
	return left, err
}
