package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/fsops/internal/globs"
)

// A scan looks at every file of a tree, and reads those that may have changed since the
// last one. What a stat does not tell:
//
//   - A file that was changed in the same tick of the clock in which it was read. It is read again by the next scan.
//   - What a process writes to memory that it maps from a file. The times tell of the first
//     write to a page since the kernel last wrote it to the disk. So a file that any process
//     maps to write to it is read again by the next scan.
//   - On tmpfs, the times do not tell even that. There every scan reads every file.
type scan struct {
	ctx     context.Context
	objects *objects
	old     *index
	exclude globs.Set
	// all has every file read: see above.
	all bool
	// mapped are the inodes that processes map to write to them.
	mapped map[uint64]bool
	// skip is the store's own directory, in case it is in the tree.
	skip inodeID

	new     []record
	links   map[uint64]*entry // the first names of the files that have several
	paths   map[*entry]string // their paths
	further []furtherName
	jobs    chan *job
	pending []*job
	entries int

	mu       sync.Mutex
	failed   error // ends the scan
	leftOut  []leftOut
	moreLeft int64
	moving   [][]byte

	moreMoving int64
}

type inodeID struct{ dev, inode uint64 }

type furtherName struct{ entry, first *entry }

// A node is a directory that was scanned.
type node struct {
	entries  tree
	children map[int]*node // of the entries that are directories
}

const (
	// maxEntries bounds a tree: 2 GiB of memory at most, while it is scanned.
	maxEntries = 8 << 20
	// maxDepth bounds the descriptors that are open at once.
	maxDepth = 400
	// maxReaders is how many files are read at once.
	maxReaders = 4
)

// A dirHandle is an open directory that the scan and the readers of its files share.
type dirHandle struct {
	fd   int
	uses atomic.Int32
}

func (d *dirHandle) release() {
	if d.uses.Add(-1) == 0 {
		unix.Close(d.fd)
	}
}

// run scans the tree at an open directory, which it closes, and returns the hash of its object.
func (s *scan) run(fd int) (h Hash, err error) {
	s.links, s.paths, s.jobs = map[uint64]*entry{}, map[*entry]string{}, make(chan *job, 4*maxReaders)
	var readers sync.WaitGroup
	for range min(maxReaders, runtime.GOMAXPROCS(0)) {
		readers.Go(s.readFiles)
	}
	root, err := s.dir(fd, "", 0)
	close(s.jobs)
	readers.Wait()
	if err = errors.Join(err, s.failed); err != nil {
		return h, err
	}
	s.finish()
	c := s.objects.coder()
	defer s.objects.coders.Put(c)
	return s.put(c, root)
}

// finish puts what the readers found where it belongs.
func (s *scan) finish() {
	for _, j := range s.pending {
		s.new[j.record] = j.found
		if j.lost {
			j.entry.kind = 0
		} else {
			j.entry.hash, j.entry.size, j.entry.mtime = j.found.hash, j.found.bytes, j.found.mtime
			j.entry.flags |= j.found.flags &^ racy
		}
	}
	for _, f := range s.further {
		if f.first.kind == 0 {
			f.entry.kind = 0
			continue
		}
		f.first.flags |= linked
	}
}

// put stores the objects of a directory and those below it.
func (s *scan) put(c *coder, n *node) (h Hash, err error) {
	for i, child := range n.children {
		if n.entries[i].hash, err = s.put(c, child); err != nil {
			return h, err
		}
	}
	n.entries = slices.DeleteFunc(n.entries, func(e entry) bool { return e.kind == 0 })
	text := n.entries.encode(c.content[:0])
	if len(text) > maxTreeSize {
		return h, fmt.Errorf("%w: a directory with %d files", ErrTooLarge, len(n.entries))
	}
	c.content = text
	return s.objects.putTree(text)
}

// stop ends the scan with an error.
func (s *scan) stop(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil {
		s.failed = err
	}
}

func (s *scan) stopped() error {
	if err := s.ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// leave notes what is not in the checkpoint.
func (s *scan) leave(path, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.leftOut) < maxNamed && len(path) <= maxNamedPath {
		s.leftOut = append(s.leftOut, leftOut{Path: []byte(path), Why: why})
	} else {
		s.moreLeft++
	}
}

// moves notes a file that does not keep still.
func (s *scan) moves(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.moving) < maxNamed && len(path) <= maxNamedPath {
		s.moving = append(s.moving, []byte(path))
	} else {
		s.moreMoving++
	}
}

// dir scans a directory. It closes the descriptor.
func (s *scan) dir(fd int, path string, depth int) (*node, error) {
	d := &dirHandle{fd: fd}
	d.uses.Add(1)
	defer d.release()
	names, err := list(fd)
	if err != nil {
		return nil, fmt.Errorf("reading the directory %q: %w", path, err)
	}
	if s.entries += len(names); s.entries > maxEntries {
		return nil, fmt.Errorf("%w: more than %d files", ErrTooLarge, maxEntries)
	}
	n := &node{entries: make(tree, 0, len(names)), children: map[int]*node{}} // which never grows, since others point into it
	for _, name := range names {
		if err := s.stopped(); err != nil {
			return nil, err
		}
		if err := s.visit(n, d, join(path, name), name, depth); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// list returns the names in a directory, in the order of their bytes.
func list(fd int) (names []string, err error) {
	buf := make([]byte, 32<<10)
	for {
		n, err := unix.ReadDirent(fd, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if n <= 0 || err != nil {
			slices.Sort(names)
			return names, err
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
	}
}

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
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
	if s.exclude.Match(path, what == unix.S_IFDIR) && !isStaged(name) || (inodeID{deviceOf(&st), st.Ino}) == s.skip {
		return nil
	}
	if st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		s.leave(path, "something is mounted there")
		return nil
	}
	n.entries = append(n.entries, entry{name: name, mode: uint32(st.Mode) & modeBits, uid: st.Uid, gid: st.Gid, mtime: nanos(st.Mtime)})
	e := &n.entries[len(n.entries)-1]
	if what != unix.S_IFDIR && st.Nlink > 1 {
		if first := s.links[st.Ino]; first != nil {
			*e = entry{name: name, kind: hardLink, target: s.paths[first]}
			s.further = append(s.further, furtherName{e, first})
			return nil
		}
		s.links[st.Ino], s.paths[e] = e, path
	}
	return s.describe(n, e, d, path, &st, depth)
}

// describe completes the entry of a file.
func (s *scan) describe(n *node, e *entry, d *dirHandle, path string, st *unix.Statx_t, depth int) error {
	drop := func(why string) {
		s.leave(path, why)
		e.kind = 0
	}
	switch uint32(st.Mode) & unix.S_IFMT {
	case unix.S_IFREG:
		e.kind = regular
		s.file(e, d, path, st)
	case unix.S_IFDIR:
		e.kind = directory
		if depth >= maxDepth {
			drop(fmt.Sprintf("it is more than %d directories deep", maxDepth))
			return nil
		}
		fd, err := openat(d.fd, e.name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
		if errors.Is(err, unix.ENOENT) {
			e.kind = 0
			return nil
		}
		if err != nil {
			drop(err.Error())
			return nil
		}
		child, err := s.dir(fd, path, depth+1)
		n.children[len(n.entries)-1] = child
		return err
	case unix.S_IFLNK:
		e.kind = symlink
		var err error
		if e.target, err = readlink(d.fd, e.name); err != nil {
			drop(err.Error())
		}
	case unix.S_IFIFO:
		e.kind = fifo
	default:
		drop("it is a socket or device")
	}
	return nil
}

// file completes the entry of a regular file: from the index, or by having it read.
func (s *scan) file(e *entry, d *dirHandle, path string, st *unix.Statx_t) {
	now := record{inode: st.Ino, ctime: nanos(st.Ctime), mtime: nanos(st.Mtime), bytes: int64(st.Size)}
	if old := s.old.find(st.Ino); old != nil && !s.all && old.flags&racy == 0 && old.ctime == now.ctime && old.mtime == now.mtime && old.bytes == now.bytes {
		now.hash, now.flags = old.hash, old.flags
		if s.mapped[st.Ino] {
			now.flags |= racy
		}
		e.hash, e.size, e.flags = old.hash, old.bytes, old.flags&holes
		s.new = append(s.new, now)
		return
	}
	d.uses.Add(1)
	j := &job{entry: e, dir: d, name: e.name, path: path, record: len(s.new)}
	s.new = append(s.new, record{})
	s.pending = append(s.pending, j)
	s.jobs <- j
}

// statx describes a file, and no link's target.
func statx(dir int, name string, st *unix.Statx_t) error {
	for {
		err := unix.Statx(dir, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_BASIC_STATS, st)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func nanos(t unix.StatxTimestamp) int64 { return t.Sec*1e9 + int64(t.Nsec) }

func deviceOf(st *unix.Statx_t) uint64 { return unix.Mkdev(st.Dev_major, st.Dev_minor) }

func openat(dir int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags|unix.O_CLOEXEC, 0)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// readlink returns what a symbolic link names.
func readlink(dir int, name string) (string, error) {
	for size := 256; ; size *= 4 {
		buf := make([]byte, size)
		n, err := unix.Readlinkat(dir, name, buf)
		if err != nil {
			return "", err
		}
		if n < size {
			return string(buf[:n]), nil
		}
	}
}
