package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/object"
)

// pinned has the paths of the store's directories below /proc/self/fd, so that nobody can put a link in their place
// meanwhile. Whoever can write to the store could otherwise do that at any moment.
type pinned struct {
	root, manifests string
	open            []int
}

// pin opens the directories of the store, and makes those that are missing. All paths in the store are below them until
// unpin is called. The caller has its turn.
func (s *Store) pin() (unpin func(), err error) {
	p := &pinned{}
	unpin = func() {
		s.pinned = nil
		// Their descriptors may be others' from now on.
		s.objects.Place(s.dirs())
		for _, fd := range p.open {
			unix.Close(fd)
		}
	}
	root, err := p.dir(unix.AT_FDCWD, s.dir, 0) // which may be the path of a descriptor itself
	if errors.Is(err, unix.ENOENT) {
		if err = os.MkdirAll(s.dir, 0o700); err == nil {
			root, err = p.dir(unix.AT_FDCWD, s.dir, 0)
		}
	}
	paths := map[string]string{}
	for _, name := range []string{objectsDir, packsDir, manifestsDir, temporaryDir, unverifiedDir} {
		if err == nil {
			switch err = unix.Mkdirat(root, name, 0o700); {
			case err == nil || errors.Is(err, unix.EEXIST):
				var fd int
				fd, err = p.dir(root, name, unix.O_NOFOLLOW)
				paths[name] = pathOf(fd)
			case name == unverifiedDir && (errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)):
				// An older agent has not made it. Without it, what is there can be read, and removed to make room.
				err, paths[name] = nil, filepath.Join(pathOf(root), name)
			}
		}
	}
	if errors.Is(err, unix.ENOENT) { // of a descriptor whose directory was removed
		err = fmt.Errorf("%w: it is gone", ErrCorrupt)
	}
	if err != nil {
		unpin()
		return nil, err
	}
	p.root, p.manifests = pathOf(root), paths[manifestsDir]
	s.pinned = p
	s.objects.Place(object.Dirs{
		Large: paths[objectsDir], Packs: paths[packsDir], Unverified: paths[unverifiedDir], Temporary: paths[temporaryDir],
	})
	return unpin, nil
}

// dir opens a directory.
func (p *pinned) dir(at int, name string, flags int) (int, error) {
	fd, err := openat(at, name, unix.O_PATH|unix.O_DIRECTORY|flags)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		err = fmt.Errorf("%w: its %s is a link, or no directory", ErrCorrupt, filepath.Base(name))
	}
	if err == nil {
		p.open = append(p.open, fd)
	}
	return fd, err
}

func pathOf(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// path returns the path of a file of the store.
func (s *Store) path(name string) string {
	if s.pinned == nil {
		return filepath.Join(s.dir, name)
	}
	if first, rest, _ := strings.Cut(name, "/"); first == manifestsDir {
		return filepath.Join(s.pinned.manifests, rest)
	}
	return filepath.Join(s.pinned.root, name)
}
