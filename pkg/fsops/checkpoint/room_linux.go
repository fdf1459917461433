package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/tree"
)

// scanInRoom scans the tree. While there is no room, it drops checkpoints that are not needed, and scans again.
func (s *Store) scanInRoom(ctx context.Context, exclude omitted, needed []ID) (*found, error) {
	s.tree.forget()
	// The first to go is what a kill has left.
	collect := func(ctx context.Context) (bool, error) { return true, s.collect(ctx) }
	drop := func(ctx context.Context) (bool, error) { return s.dropOldest(ctx, needed...) }
	for next := collect; ; next = drop {
		found, err := s.store(ctx, exclude)
		if !isNoRoom(err) {
			return found, err
		}
		if made, roomErr := next(ctx); roomErr != nil || !made {
			// What it has stored would take the room of the next one.
			err = noRoom(err)
			for _, further := range []error{roomErr, s.collect(ctx)} {
				if !isNoRoom(further) { // which is said already
					err = errors.Join(err, further)
				}
			}
			return nil, err
		}
	}
}

// isNoRoom reports whether the disk, or the share of it that somebody may use, is full.
func isNoRoom(err error) bool {
	return errors.Is(err, ErrNoRoom) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}

// noRoom returns the error of a disk that is full as ErrNoRoom, and any other as it is.
func noRoom(err error) error {
	if !isNoRoom(err) || errors.Is(err, ErrNoRoom) {
		return err
	}
	if errno, ok := errors.AsType[unix.Errno](err); ok {
		err = errno // the path is one of the store's, which tells nobody anything
	}
	return fmt.Errorf("%w: %w", ErrNoRoom, err)
}

// boundVolume bounds the store by what the volume may hold, if the file system does not. A pod that has more on the
// node's disk than it may is evicted, and loses all of it. Each turn calls this with its own context.
func (s *Store) boundVolume(ctx context.Context) {
	if s.opts.Volume <= 0 {
		return
	}
	s.objects.Beside = func() (int64, error) {
		tree, err := s.tree.bytes(ctx, s.root)
		return max(0, s.opts.Volume-tree-s.objects.Used()), err
	}
}

// A treeUse is what the tree takes on the disk. It is counted once for each checkpoint or transfer that begins, and only
// if one writes much.
type treeUse struct {
	mu      sync.Mutex // files are read at the same time
	counted bool
	use     int64
}

// forget has the tree counted again.
func (t *treeUse) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counted = false
}

// bytes counts what the tree takes, unless that is known. A count that ctx ends is an error: it would be too low.
func (t *treeUse) bytes(ctx context.Context, root string) (int64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counted {
		return t.use, nil
	}
	use := diskUse(ctx, root)
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	t.use, t.counted = use, true
	return use, nil
}

// diskUse returns how many bytes the files below a directory have on the disk, as far as it can be told until ctx ends.
// It counts a file once for each of its names.
func diskUse(ctx context.Context, dir string) int64 {
	fd, err := openat(unix.AT_FDCWD, dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return 0
	}
	u := usage{ctx: ctx, buf: make([]byte, 32<<10)}
	u.add(fd, 0)
	return u.bytes
}

// A usage is what was counted so far.
type usage struct {
	ctx     context.Context
	buf     []byte
	bytes   int64
	entries int
}

// add adds what is in a directory, and closes it.
func (u *usage) add(fd, depth int) {
	defer unix.Close(fd)
	for u.ctx.Err() == nil && u.entries <= tree.MaxEntries {
		n, err := unix.ReadDirent(fd, u.buf)
		if n <= 0 || err != nil {
			return // it counts what it can
		}
		_, _, names := unix.ParseDirent(u.buf[:n], -1, nil)
		u.entries += len(names)
		for _, name := range names {
			u.addFile(fd, name, depth)
		}
	}
}

func (u *usage) addFile(dir int, name string, depth int) {
	var st unix.Statx_t
	if statx(dir, name, &st) != nil {
		return
	}
	u.bytes += int64(st.Blocks) * 512
	if kindOf(uint32(st.Mode)) != tree.Directory || depth >= tree.MaxDepth {
		return
	}
	if fd, err := openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW); err == nil {
		u.add(fd, depth+1)
	}
}
