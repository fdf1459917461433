package launcher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// marker is the environment variable by which the processes of a sandbox are
// found when its agent has died and cannot end them. It holds the path of the
// sandbox's directory.
func (p place) marker() string { return "PODAGENT_SANDBOX=" + p.dir }

// endLeftovers kills the processes of a sandbox that no agent looks after any
// more. Since they may start others meanwhile, it looks until there are none.
func endLeftovers(ctx context.Context, p place) error {
	for range leftoverScans {
		if err := ctx.Err(); err != nil {
			return err
		}
		left, err := leftovers([]byte(p.marker()))
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

// leftovers returns descriptors of the processes with a marker in their
// environment. It leaves out processes of other users, whose environment it cannot read.
func leftovers(marker []byte) (pidfds []int, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() || !isMarked(pid, marker) {
			continue
		}
		pidfd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue // it has ended
		}
		// The pid may have become another's before it was opened.
		if !isMarked(pid, marker) {
			unix.Close(pidfd)
			continue
		}
		pidfds = append(pidfds, pidfd)
	}
	return pidfds, nil
}

func isMarked(pid int, marker []byte) bool {
	environ, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil {
		return false
	}
	for _, v := range bytes.Split(environ, []byte{0}) {
		if bytes.Equal(v, marker) {
			return true
		}
	}
	return false
}
