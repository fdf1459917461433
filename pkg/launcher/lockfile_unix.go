//go:build linux || darwin

package launcher

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lockFile takes an exclusive lock on a file that it creates and that unlock
// removes. It polls, because a context cannot interrupt flock(2).
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, err
		}
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil && isAt(file, path) {
			return func() {
				_ = os.Remove(path) // while the lock is held; a leftover does no harm
				file.Close()
			}, nil
		}
		file.Close()
		if err != nil && !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}

// isAt reports whether the file is still the one at path. Its last owner may have
// removed it before this process got the lock.
func isAt(file *os.File, path string) bool {
	mine, err := file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(mine, there)
}
