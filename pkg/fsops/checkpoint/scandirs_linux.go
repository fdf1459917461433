package checkpoint

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/tree"
)

// dir scans a directory. It closes the descriptor.
func (s *scan) dir(fd int, path string, depth int) (*node, error) {
	d := &dirHandle{fd: fd, path: path}
	d.uses.Add(1)
	defer d.release()
	names, err := s.list(fd)
	if err != nil {
		return nil, err
	}
	n := &node{entries: make(tree.Entries, 0, len(names))} // which never grows, since others point into it
	for _, name := range names {
		if err := s.stopped(); err != nil {
			return nil, err
		}
		if err := s.visit(n, d, tree.Join(path, name), name, depth); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// An unreadable error is that of one directory, and not of the scan.
type unreadable struct{ error }

func (e unreadable) Unwrap() error { return e.error }

// take counts what a file takes, besides what all files do.
func (s *scan) take(bytes int) error {
	if s.memory += int64(bytes); s.memory > tree.MaxMemory {
		return fmt.Errorf("%w: %d files with their names take more than %d MiB of memory", ErrTooLarge, s.entries, tree.MaxMemory>>20)
	}
	return nil
}

// list returns the names in a directory, in the order of their bytes.
func (s *scan) list(fd int) (names []string, err error) {
	if s.buf == nil {
		s.buf = make([]byte, 32<<10)
	}
	for {
		n, err := unix.ReadDirent(fd, s.buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, unreadable{err}
		}
		if n <= 0 {
			slices.Sort(names)
			return names, nil
		}
		if err := s.stopped(); err != nil {
			return nil, err
		}
		known := len(names)
		_, _, names = unix.ParseDirent(s.buf[:n], -1, names)
		if s.entries += len(names) - known; s.entries > tree.MaxEntries {
			return nil, fmt.Errorf("%w: more than %d files", ErrTooLarge, tree.MaxEntries)
		}
		for _, name := range names[known:] {
			if err := s.take(tree.EntryMemory + len(name)); err != nil {
				return nil, err
			}
		}
	}
}

// visit adds a file to the directory that it is in.
func (s *scan) visit(n *node, d *dirHandle, path, name string, depth int) error {
	var st unix.Statx_t
	switch err := statx(d.fd, name, &st); {
	case errors.Is(err, unix.ENOENT):
		return nil // removed since its name was read
	case err != nil:
		s.leave(path, err.Error())
		return nil
	}
	what := uint32(st.Mode) & unix.S_IFMT
	id := inodeID{deviceOf(&st), st.Ino}
	if s.exclude.match(path, what == unix.S_IFDIR) || id == s.skip {
		return nil
	}
	if st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		s.leave(path, whyMounted)
		return nil
	}
	n.entries = append(n.entries, tree.Entry{Name: name, Mode: uint32(st.Mode) & tree.ModeBits, UID: st.Uid, GID: st.Gid, MTime: nanos(st.Mtime)})
	e := &n.entries[len(n.entries)-1]
	if what != unix.S_IFDIR && st.Nlink > 1 {
		if first := s.links[id]; first != nil {
			*e = tree.Entry{Name: name, Kind: tree.HardLink, Target: s.paths[first]}
			s.further = append(s.further, furtherName{e, first})
			return nil
		}
		s.links[id], s.paths[e] = e, path
		if err := s.take(len(path)); err != nil {
			return err
		}
	}
	return s.describe(n, e, d, path, &st, depth)
}

// Why a file is left out that has no content which anybody could lose.
const (
	whyNoFile  = "it is a socket or device"
	whyMounted = "something is mounted there"
)

// describe completes the entry of a file.
func (s *scan) describe(n *node, e *tree.Entry, d *dirHandle, path string, st *unix.Statx_t, depth int) error {
	drop := func(why string) {
		s.leave(path, why)
		e.Kind = 0
	}
	switch uint32(st.Mode) & unix.S_IFMT {
	case unix.S_IFREG:
		e.Kind = tree.Regular
		s.file(e, d, st)
	case unix.S_IFDIR:
		return s.subdir(n, e, d, path, depth)
	case unix.S_IFLNK:
		e.Kind = tree.Symlink
		var err error
		if e.Target, err = readlink(d.fd, e.Name); err != nil {
			drop(err.Error())
		}
		return s.take(len(e.Target))
	case unix.S_IFIFO:
		e.Kind = tree.FIFO
	default:
		drop(whyNoFile)
	}
	return nil
}

// subdir scans a directory in another one. One that is removed meanwhile is not in the checkpoint.
func (s *scan) subdir(n *node, e *tree.Entry, d *dirHandle, path string, depth int) error {
	e.Kind = tree.Directory
	if depth >= tree.MaxDepth {
		s.leave(path, fmt.Sprintf("it is more than %d directories deep", tree.MaxDepth))
		e.Kind = 0
		return nil
	}
	i := len(n.entries) - 1
	var child *node
	fd, err := openat(d.fd, e.Name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		err = unreadable{err}
	} else {
		child, err = s.dir(fd, path, depth+1)
	}
	if u, ok := err.(unreadable); ok {
		if e.Kind = 0; !errors.Is(u, unix.ENOENT) && !errors.Is(u, unix.ENOTDIR) && !errors.Is(u, unix.ELOOP) {
			s.leave(path, u.Error())
		}
		return nil
	}
	if n.children == nil {
		n.children = map[int]*node{}
	}
	n.children[i] = child
	return err
}

// file completes the entry of a regular file: from the index, or by having it read.
func (s *scan) file(e *tree.Entry, d *dirHandle, st *unix.Statx_t) {
	now := record{inodeID: inodeID{deviceOf(st), st.Ino}, ctime: nanos(st.Ctime), mtime: nanos(st.Mtime), bytes: int64(st.Size)}
	if old := s.old.find(now.inodeID); old != nil && !s.all && old.flags&racy == 0 && old.ctime == now.ctime && old.mtime == now.mtime && old.bytes == now.bytes {
		now.hash, now.flags = old.hash, old.flags
		if s.mapped[st.Ino] {
			now.flags |= racy
		}
		e.Hash, e.Size, e.Flags = old.hash, old.bytes, old.flags&tree.Holes
		s.new = append(s.new, now)
		return
	}
	d.uses.Add(1)
	j := &job{entry: e, dir: d, name: e.Name, record: len(s.new), found: now, sparse: isSparse(now.bytes, int64(st.Blocks))}
	s.new = append(s.new, record{})
	s.pending = append(s.pending, j)
	s.jobs <- j
}
