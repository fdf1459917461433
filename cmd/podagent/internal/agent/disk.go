package agent

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/cmd/podagent/internal/proc/eintr"
)

// disk is what a file system has, in bytes and in inodes. nil is not known.
type disk struct{ size, used, available, inodes, inodesUsed *int64 }

// diskMeter asks file systems what they have, one at a time: the server of a file system may
// never answer, and each question takes a thread until then.
type diskMeter struct {
	turn chan struct{}
	// ask is [unix.Statfs], except in tests.
	ask func(path string, st *unix.Statfs_t) error
}

func newDiskMeter() diskMeter { return diskMeter{turn: make(chan struct{}, 1), ask: unix.Statfs} }

// read returns what the file system of path has, nil if it does not answer within diskWait.
func (m *diskMeter) read(ctx context.Context, path string) *disk {
	ctx, cancel := context.WithTimeout(ctx, diskWait)
	defer cancel()
	select {
	case m.turn <- struct{}{}:
	case <-ctx.Done():
		return nil
	}
	answer := make(chan *disk, 1)
	go func() {
		defer func() { <-m.turn }()
		var st unix.Statfs_t
		if err := eintr.Repeat(func() error { return m.ask(path, &st) }); err != nil {
			st = unix.Statfs_t{}
		}
		answer <- diskOf(&st)
	}()
	select {
	case d := <-answer:
		return d
	case <-ctx.Done():
		return nil
	}
}

// diskOf takes over what a file system answers. Some do not count their blocks or inodes,
// and one that a program in the sandbox serves may say anything.
func diskOf(st *unix.Statfs_t) *disk {
	size := uint64(st.Frsize)
	if size == 0 {
		size = uint64(st.Bsize)
	}
	d := &disk{}
	if st.Blocks > 0 {
		d.size, d.used, d.available = product(st.Blocks, size), product(st.Blocks-st.Bfree, size), product(st.Bavail, size)
	}
	if st.Files > 0 {
		d.inodes, d.inodesUsed = product(st.Files, 1), product(st.Files-st.Ffree, 1)
	}
	return d
}

// product returns n units of this size, nil if there are more than can be.
func product(n, size uint64) *int64 {
	if size == 0 || size > maxDisk || n > maxDisk/size {
		return nil
	}
	return new(int64(n * size))
}
