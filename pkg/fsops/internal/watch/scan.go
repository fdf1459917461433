package watch

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/podagent/podagent/pkg/fsops/internal/opener"
)

// A scan compares directories of the tree with what is known of them, and watches
// them.
type scan struct {
	*watcher
	dir *treeDir
	at  string
	// quiet says to report nothing, because the directory is scanned for the first time.
	quiet bool
	// since, if it is not zero, is when the watch may have been lost: files that
	// changed later are reported as written.
	since time.Time
	// blind says that not all former names in the directory are known.
	blind bool
	below []scan
}

// scan watches a directory of the tree and those below it, and reports files that
// came and went without an event. Later changes have events, because the watch is
// set before the directory is read.
func (w *watcher) scan(d *treeDir, quiet bool, since time.Time) error {
	return scan{watcher: w, dir: d, quiet: quiet, since: since}.run()
}

func (s scan) run() error {
	s.at = s.watcher.path(s.dir)
	if err := s.notify.Add(s.at); err != nil {
		if s.dir.parent != nil && (isGone(err) || errors.Is(err, fs.ErrPermission)) {
			return nil
		}
		return failed(s.rel(s.at), err)
	}
	if !s.opts.Recursive && !s.opts.Ignore {
		s.dir.partial = true // its names are not needed
		return nil
	}
	s.blind = s.dir.partial
	s.lost = s.lost || s.blind
	if err := s.compare(); err != nil {
		return err
	}
	for _, below := range s.below {
		if err := below.run(); err != nil {
			return err
		}
	}
	return nil
}

// compare looks at the entries of the directory, and reports those that are
// missing.
func (s *scan) compare() error {
	missing := s.dir.names()
	whole, err := s.eachEntry(func(e fs.DirEntry) error {
		delete(missing, e.Name())
		return s.look(e)
	})
	if err != nil || !whole {
		return err
	}
	for name := range missing {
		if err := s.removed(s.dir, name, filepath.Join(s.at, name)); err != nil {
			return err
		}
	}
	return nil
}

// names returns the names that are known in a directory.
func (d *treeDir) names() map[string]struct{} {
	names := maps.Clone(d.files)
	if names == nil {
		names = make(map[string]struct{}, len(d.dirs))
	}
	for name := range d.dirs {
		names[name] = struct{}{}
	}
	return names
}

// eachEntry calls visit for the entries of the directory, and reports whether it could
// read all of them.
func (s *scan) eachEntry(visit func(fs.DirEntry) error) (whole bool, err error) {
	dir, _, err := opener.Open(s.at, os.O_RDONLY|openDirectory)
	if err != nil {
		return false, nil // it is gone, or may not be read
	}
	defer dir.Close()
	if err := s.identify(dir); err != nil {
		return false, err
	}
	for {
		entries, readErr := dir.ReadDir(dirBatch)
		for _, e := range entries {
			if err := visit(e); err != nil {
				return false, err
			}
		}
		if err := s.ended(); err != nil {
			return false, err
		}
		if readErr != nil {
			return readErr == io.EOF, nil
		}
	}
}

// identify notes which directory this is. It may be a renamed directory of the tree
// whose event is still to come. Then the watch belongs to the old name, and would end
// with it, so identify sets it anew.
func (s *scan) identify(dir *os.File) error {
	info, err := dir.Stat()
	if err != nil {
		return nil
	}
	id := idOf(info)
	s.dir.id = id
	if id == (fileID{}) {
		return nil
	}
	old := s.ids[id]
	s.ids[id] = s.dir
	if old == nil || old == s.dir || !s.inTree(old) {
		return nil
	}
	s.unwatch(old, s.watcher.path(old))
	if err := s.notify.Add(s.at); err != nil && !isGone(err) {
		return failed(s.rel(s.at), err)
	}
	return nil
}

// look compares an entry of the directory with what is known of it.
func (s *scan) look(e fs.DirEntry) error {
	name := e.Name()
	child := s.dir.dirs[name]
	_, file := s.dir.files[name]
	switch {
	case s.ignored(s.dir, name, e.IsDir()):
		s.forget(s.dir, name)
		return nil
	case child != nil && e.IsDir():
		s.below = append(s.below, scan{watcher: s.watcher, dir: child, quiet: s.quiet, since: s.since})
		return nil
	case file && (!e.IsDir() || !s.opts.Recursive):
		return s.written(e)
	case child != nil || file: // it is another one, of another type
		if err := s.removed(s.dir, name, filepath.Join(s.at, name)); err != nil {
			return err
		}
	case s.blind && !e.IsDir(): // it may be known
		return nil
	}
	return s.discover(e)
}

// written reports a file that was changed while there was no watch.
func (s *scan) written(e fs.DirEntry) error {
	if s.since.IsZero() {
		return nil
	}
	info, err := e.Info()
	if err != nil || changeTime(info).Before(s.since) {
		return nil
	}
	return s.hold(Write, filepath.Join(s.at, e.Name()))
}

// discover takes a new file into the tree, and reports it.
func (s *scan) discover(e fs.DirEntry) error {
	if !s.quiet {
		info, err := e.Info()
		if err != nil {
			return nil // it is gone again
		}
		path := filepath.Join(s.at, e.Name())
		if len(s.scanned) == maxScanned {
			clear(s.scanned)
		}
		s.scanned[path] = idOf(info)
		if err := s.hold(Create, path); err != nil {
			return err
		}
	}
	if child := s.learn(s.dir, e.Name(), e.IsDir()); child != nil {
		s.below = append(s.below, scan{watcher: s.watcher, dir: child, quiet: s.quiet})
	}
	return nil
}

// isScanned reports whether a scan has reported this file already. It forgets that,
// so that a later file of the name counts as new.
func (w *watcher) isScanned(path string, info fs.FileInfo) bool {
	known, ok := w.scanned[path]
	delete(w.scanned, path)
	return ok && known == idOf(info) && known != (fileID{})
}
