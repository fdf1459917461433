package launcher

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/launcher/internal/cgroup"
	"github.com/podagent/podagent/pkg/procfs"
)

// marker is the environment variable that identifies a sandbox's processes when its
// agent has died and cannot end them. It holds the path of the sandbox's directory.
//
// It comes first in the agent's environment, and the agent puts it in front of those of
// its commands, because only the beginning of an environment is read.
func (p place) marker() string { return markerEnv + "=" + p.dir }

// markerEnv is the name of the marker.
const markerEnv = "PODAGENT_SANDBOX"

// endLeftovers kills the processes of a sandbox that has no agent any more. They
// may start others meanwhile, so it looks until there are none.
func endLeftovers(ctx context.Context, p place) error {
	if p.Bounds.Group != "" {
		if err := cgroup.End(ctx, p.Bounds.Group); err != nil {
			return fmt.Errorf("ending what the agent left: %w", err)
		}
	}
	for range leftoverScans {
		if err := ctx.Err(); err != nil {
			return err
		}
		left, err := leftovers(p)
		if err != nil || len(left) == 0 {
			return err
		}
		for _, pidfd := range left {
			killErr := unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0)
			if killErr == nil {
				_, killErr = awaitEnd(ctx, pidfd, stopTimeout)
			} else if errors.Is(killErr, unix.ESRCH) {
				killErr = nil
			}
			unix.Close(pidfd)
			err = errors.Join(err, killErr)
		}
		if err != nil {
			return fmt.Errorf("ending what the agent left: %w", err)
		}
	}
	return errors.New("the sandbox starts processes faster than they can be ended")
}

// leftovers returns descriptors of the processes of the sandbox's lineage, and of those with its marker in their
// environment. It leaves out processes of other users, which it cannot look at.
func leftovers(p place) (pidfds []int, err error) {
	var processes procfs.FS
	isMarked := func(pid int) bool {
		if isOf(p.Bounds.Lineage, pid, &processes) {
			return true
		}
		dir, err := processes.Getenv(pid, markerEnv)
		return err == nil && dir == p.dir
	}
	pids, err := processes.PIDs()
	if err != nil {
		return nil, fmt.Errorf("cannot list the processes: %w", err)
	}
	for _, pid := range pids {
		if pid == os.Getpid() || !isMarked(pid) {
			continue
		}
		pidfd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue // it has ended
		}
		// The pid may belong to another process by now.
		if !isMarked(pid) {
			unix.Close(pidfd)
			continue
		}
		pidfds = append(pidfds, pidfd)
	}
	return pidfds, nil
}
