//go:build linux || darwin

// Package lockfile makes processes take turns by a lock on a file.
package lockfile

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// poll is how long it waits at most before it tries again to get a lock that another holds: a
// context cannot interrupt flock(2).
const poll = 4 * time.Millisecond

// Lock takes an exclusive lock on a file that it creates and that unlock removes. It waits until
// ctx ends. On a platform without such locks the error is [errors.ErrUnsupported].
func Lock(ctx context.Context, path string) (unlock func(), err error) {
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
		if err != nil && !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(rand.N(poll)):
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
