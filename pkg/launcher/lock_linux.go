package launcher

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/fsops"
)

// lock takes the lock of a sandbox, which all processes of the user share, and
// returns its place. The lock is a file beside the sandbox's directory.
func (l *Local) lock(ctx context.Context, id string) (p place, unlock func(), err error) {
	if p, err = l.place(id); err != nil {
		return p, nil, err
	}
	state := filepath.Dir(p.dir)
	if err := makePrivate(state); err != nil {
		return p, nil, err
	}
	unlock, err = lockFile(ctx, p.dir+".lock")
	return p, unlock, err
}

// makePrivate creates a directory that only this user can enter, or checks that it
// is one.
func makePrivate(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if err := fsops.CheckPrivate(info); err != nil {
		return fmt.Errorf("state directory %s is not yours alone: %w: give one of your own with 0700", dir, err)
	}
	return nil
}

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
