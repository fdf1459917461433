package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/fsops/internal/globs"
)

// scanInRoom scans the tree. While there is no room, it has some made, and scans again.
func (s *Store) scanInRoom(ctx context.Context, exclude globs.Set, makeRoom func(context.Context) (bool, error)) (*found, error) {
	s.boundVolume()
	// The first to go is what a kill has left.
	collect := func(ctx context.Context) (bool, error) { return true, s.collect(ctx) }
	for next := collect; ; next = makeRoom {
		found, err := s.store(ctx, exclude)
		if !isNoRoom(err) {
			return found, err
		}
		if made, roomErr := next(ctx); roomErr != nil || !made {
			// What it has stored would take the room of the next one.
			return nil, errors.Join(noRoom(err), roomErr, s.collect(ctx))
		}
	}
}

// isNoRoom reports whether the disk, or the share of it that somebody may use, is full.
func isNoRoom(err error) bool {
	return errors.Is(err, ErrNoRoom) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}

func noRoom(err error) error {
	if errors.Is(err, ErrNoRoom) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrNoRoom, err)
}

// boundVolume bounds the store by what the volume may hold, if the file system does not. A pod that has more on the
// node's disk than it may is evicted, and loses all of it. What the tree has is counted once for each checkpoint, and only for
// one that writes much.
func (s *Store) boundVolume() {
	if s.opts.Volume <= 0 {
		return
	}
	tree := sync.OnceValue(func() int64 { return diskUse(s.root) })
	s.objects.beside = func() int64 { return max(0, s.opts.Volume-tree()-s.objects.used.Load()) }
}

// diskUse returns how many bytes the files below a directory have on the disk, as far as it can be told. It
// counts a file once for each of its names.
func diskUse(dir string) (bytes int64) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0
	}
	defer root.Close()
	entries := 0
	_ = fs.WalkDir(root.FS(), ".", func(_ string, d fs.DirEntry, err error) error {
		if entries++; entries > maxEntries {
			return fs.SkipAll
		}
		if err != nil {
			return nil // it counts what it can
		}
		if info, err := d.Info(); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				bytes += st.Blocks * 512
			}
		}
		return nil
	})
	return bytes
}
