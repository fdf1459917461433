//go:build linux || darwin

package ledger

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lockPoll is how long a change waits at most before it tries to get a lock again: a context cannot
// interrupt flock(2).
const lockPoll = 4 * time.Millisecond

// lock takes an exclusive lock on a file that it creates and that unlock removes.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	for ctx.Err() == nil {
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
		if err != nil && !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return nil, err
		}
		if err := sleep(ctx, rand.N(lockPoll)); err != nil {
			return nil, err
		}
	}
	return nil, context.Cause(ctx)
}

// isAt reports whether the file is still the one at path. Its last owner may have removed it
// before this process got the lock.
func isAt(file *os.File, path string) bool {
	mine, err := file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(mine, there)
}
