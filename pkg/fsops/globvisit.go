package fsops

import (
	"cmp"
	"errors"
	"io/fs"
	"syscall"
	"time"

	"github.com/podagent/podagent/pkg/fsops/internal/globs"
	"github.com/podagent/podagent/pkg/fsops/internal/walk"
)

// A globVisitor visits all entries of a tree, in several goroutines at once. Its fields
// never change, so that there is no false sharing of the processors' caches.
type globVisitor struct {
	m        *globs.Matcher
	dirsOnly bool
	byTime   bool
	dir      string // the tree's root as it is reported; empty for the directory searched from
	queue    *globQueue
}

// visit puts an entry of the tree into the queue if it matches, and makes the walk enter
// the directories that matches can lie in.
func (v *globVisitor) visit(worker int, e *walk.Entry) error {
	if e.Err != nil {
		return v.unreadable(e)
	}
	next, linked := v.m.Step(e.Value().(*globs.State), e.Name)
	if next == nil {
		e.Skip()
		return nil
	}
	switch e.Type {
	case fs.ModeDir:
		enter(e, next)
	case fs.ModeSymlink:
		enter(e, linked)
	}
	if !next.Ends() {
		return nil
	}
	rel := e.Rel()
	if !v.m.Accepts(next, rel) {
		return nil
	}
	return v.match(worker, e, joinName(v.dir, rel))
}

// enter makes the walk go on in a directory if matches can lie in it.
func enter(e *walk.Entry, inner *globs.State) {
	if inner != nil && inner.Descends() {
		e.Enter(inner)
	} else {
		e.Skip()
	}
}

// match puts an entry into the queue unless it is left out after all.
func (v *globVisitor) match(worker int, e *walk.Entry, path string) error {
	item := globItem{path: path, typ: e.Type}
	if v.dirsOnly && e.Type == fs.ModeSymlink {
		attr, err := e.Stat(true)
		if err != nil {
			return v.failed(path, err)
		}
		item.typ = attr.Type
	}
	if v.dirsOnly && item.typ != fs.ModeDir {
		return nil
	}
	if v.byTime {
		attr, err := e.Stat(false)
		if err != nil {
			return v.failed(path, err)
		}
		item.sec, item.nsec = unixTime(attr.ModTime)
	}
	return v.queue.put(worker, item)
}

// failed puts an error into the queue, unless the file is gone.
func (v *globVisitor) failed(path string, err error) error {
	if isAbsent(err) {
		return nil
	}
	return v.queue.fail(pathError("glob", path, err))
}

// unreadable puts an error into the queue.
func (v *globVisitor) unreadable(e *walk.Entry) error {
	rel := e.Rel()
	if rel == "" {
		if isGone(e.Err) {
			return nil // the directory was there, but is no more, or is a file
		}
		rel = cmp.Or(v.dir, ".")
	} else {
		rel = joinName(v.dir, rel)
	}
	return v.queue.fail(pathError("glob", rel, e.Err))
}

// unixTime splits a time as [time.Unix] takes it.
func unixTime(t time.Time) (sec int64, nsec int32) { return t.Unix(), int32(t.Nanosecond()) }

// isAbsent reports whether err says that there is no such file, or cannot be one.
func isAbsent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ENAMETOOLONG)
}
