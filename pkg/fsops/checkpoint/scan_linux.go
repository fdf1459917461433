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

	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/object"
	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/tree"
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
	objects *object.Store
	old     *index
	exclude omitted
	// all has every file read: see above.
	all bool
	// mapped are the inodes that processes map to write to them.
	mapped map[uint64]bool
	// skip is the store's own directory, in case it is in the tree.
	skip inodeID

	new     []record
	links   map[inodeID]*tree.Entry // the first names of the files that have several
	paths   map[*tree.Entry]string  // their paths
	further []furtherName
	jobs    chan *job
	pending []*job
	entries int
	memory  int64  // about what all this takes
	buf     []byte // for names

	mu       sync.Mutex
	failed   error // ends the scan
	leftOut  []leftOut
	moreLeft int64
	moving   [][]byte

	moreMoving int64
}

type furtherName struct{ entry, first *tree.Entry }

// A node is a directory that was scanned.
type node struct {
	entries  tree.Entries
	children map[int]*node // of the entries that are directories
}

// maxReaders is how many files are read at once.
const maxReaders = 4

// A dirHandle is an open directory that the scan and the readers of its files share.
type dirHandle struct {
	fd   int
	path string
	uses atomic.Int32
}

func (d *dirHandle) release() {
	if d.uses.Add(-1) == 0 {
		unix.Close(d.fd)
	}
}

// run scans the tree at an open directory, which it closes, and returns the hash of its object.
func (s *scan) run(fd int) (h Hash, err error) {
	s.links, s.paths, s.jobs = map[inodeID]*tree.Entry{}, map[*tree.Entry]string{}, make(chan *job, 4*maxReaders)
	var readers sync.WaitGroup
	for range min(maxReaders, runtime.GOMAXPROCS(0)) {
		readers.Go(s.readFiles)
	}
	root, err := s.dir(fd, "", 0)
	if _, ok := err.(unreadable); ok {
		err = fmt.Errorf("reading the directory: %w", err)
	}
	close(s.jobs)
	readers.Wait()
	if err = errors.Join(err, s.failed); err != nil {
		return h, err
	}
	s.finish()
	c := s.objects.Coder()
	defer s.objects.Release(c)
	return s.put(c, root)
}

// finish puts what the readers found where it belongs.
func (s *scan) finish() {
	for _, j := range s.pending {
		if j.lost {
			j.entry.Kind = 0
		} else {
			s.new[j.record] = j.found
			j.entry.Hash, j.entry.Size, j.entry.MTime = j.found.hash, j.found.bytes, j.found.mtime
			j.entry.Flags |= j.found.flags &^ racy
		}
	}
	for _, f := range s.further {
		if f.first.Kind == 0 {
			f.entry.Kind = 0
			continue
		}
		f.first.Flags |= tree.Linked
	}
}

// put stores the objects of a directory and those below it.
func (s *scan) put(c *object.Coder, n *node) (h Hash, err error) {
	for i, child := range n.children {
		if n.entries[i].Hash, err = s.put(c, child); err != nil {
			return h, err
		}
	}
	n.entries = slices.DeleteFunc(n.entries, func(e tree.Entry) bool { return e.Kind == 0 })
	text := n.entries.Encode(c.Content[:0])
	if len(text) > object.MaxDir {
		return h, fmt.Errorf("%w: a directory with %d files", ErrTooLarge, len(n.entries))
	}
	c.Content = text
	return s.objects.PutDir(text)
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
