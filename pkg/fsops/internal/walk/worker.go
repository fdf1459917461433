package walk

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/podagent/podagent/pkg/fsops/internal/ignore"
)

// A dirent is an entry of a directory as the system lists it.
type dirent struct {
	name   string
	typ    fs.FileMode
	length int32 // of the name, where that is set later
}

// unknownType means that the system did not say the type of a file.
const unknownType = ^fs.FileMode(0)

// A worker is one goroutine of a walk.
type worker struct {
	*tree
	id    int
	entry Entry
	list  lister
	batch []dirent
	// found are directories in the present one that are not in the queue yet.
	found []*dir
}

// work does jobs until none is left.
func (t *tree) work(id int) {
	w := &worker{tree: t, id: id}
	for j, ok := t.queue.next(job{}); ok; j, ok = t.queue.next(j) {
		var err error
		if j.entries != nil {
			err = w.entries(j.dir, j.entries)
		} else {
			err = w.directory(j.dir, j.from)
		}
		if err != nil {
			t.queue.stop(err)
		}
	}
}

// directory opens and reads a directory.
func (w *worker) directory(d, from *dir) error {
	if err := w.open(d, from); err != nil {
		return w.fail(d, err)
	}
	for first := true; ; first = false {
		batch, listErr := w.fill(d)
		if first {
			if err := w.enterRules(d, batch, listErr == io.EOF); err != nil {
				return err
			}
		}
		if err := w.entries(d, batch); err != nil {
			return err
		}
		switch {
		case listErr == io.EOF || w.queue.stopped.Load():
			return nil
		case listErr != nil:
			return w.fail(d, listErr)
		}
	}
}

// fill reads a batch of entries. It returns io.EOF with the last one.
func (w *worker) fill(d *dir) ([]dirent, error) {
	w.batch = w.batch[:0]
	for len(w.batch) < batchEntries {
		var err error
		if w.batch, err = w.list.next(d.handle, w.batch); err != nil {
			return w.batch, err
		}
	}
	return w.batch, nil
}

// open opens a directory from one above it.
func (w *worker) open(d, from *dir) error {
	var h handle
	var err error
	if from == nil {
		h, err = openRoot(w.root)
	} else {
		h, err = openBelow(from, d)
	}
	if err == nil && w.opts.Follow {
		if d.id, err = h.id(); err == nil && d.isCycle() {
			err = ErrCycle
		}
		if err != nil {
			h.close()
		}
	}
	if err != nil {
		return err
	}
	d.handle, d.open = h, true
	d.pins++
	return nil
}

// openBelow opens d, which is below from. It follows a link to d only if d is
// linked.
func openBelow(from, d *dir) (handle, error) {
	if from == d.parent {
		return from.handle.openDir(d.name, d.linked)
	}
	path := string(appendPath(nil, from, d.parent)) + d.name
	return from.handle.openPath(path, d.linked)
}

// isCycle reports whether d was reached by a link, and lies in itself.
func (d *dir) isCycle() bool {
	if !d.linked {
		return false
	}
	for above := d.parent; above != nil; above = above.parent {
		if above.id == d.id {
			return true
		}
	}
	return false
}

// fail visits a directory that could not be read, unless it is gone.
func (w *worker) fail(d *dir, err error) error {
	if d.parent == nil {
		return w.visit(w.id, &Entry{Type: fs.ModeDir, Err: err, value: d.value})
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP) {
		return nil // removed, or replaced by a file or a symbolic link
	}
	return w.visit(w.id, &Entry{Name: d.name, Type: fs.ModeDir, Err: err, in: d.parent, linked: d.linked, value: d.parent.value})
}

// enterRules finds the rules of a directory. The batch has its first entries, or
// all if it is complete.
func (w *worker) enterRules(d *dir, batch []dirent, complete bool) error {
	if d.parent == nil {
		d.rules = w.opts.Ignore
		return nil
	}
	if d.parent.rules == nil || d.name == ignore.GitDir { // which has no rules of its own
		return nil
	}
	files := ignore.AllFiles
	if complete {
		files = 0
		for i := range batch {
			files |= ignore.FileOf(batch[i].name)
		}
	}
	var err error
	if d.rules, err = d.parent.rules.Enter(d.name, d.handle.alias(), files); err == nil {
		return nil
	}
	for _, err := range ignore.Errors(err) {
		if err := w.visit(w.id, &Entry{Name: w.rulesFile(d, err), Err: err, in: d, value: d.value}); err != nil {
			return err
		}
	}
	return nil
}

// rulesFile returns the path from d of the file of rules that an error is
// about.
func (w *worker) rulesFile(d *dir, err error) string {
	at := filepath.Join(w.root, filepath.FromSlash(string(appendPath(nil, nil, d))))
	var pathErr *fs.PathError
	if alias := d.handle.alias(); errors.As(err, &pathErr) && strings.HasPrefix(pathErr.Path, alias+"/") {
		at = alias
	}
	return ignore.ErrorFile(at, err)
}

// entries visits entries of d, and shares them with workers that have nothing to
// do.
func (w *worker) entries(d *dir, batch []dirent) error {
	for i := 0; i < len(batch); i++ {
		if w.queue.stopped.Load() {
			break
		}
		if w.queue.hungry.Load() > 0 {
			batch = w.share(d, batch, i)
		}
		if err := w.visitEntry(d, batch[i]); err != nil {
			return err
		}
	}
	w.flush(d)
	return nil
}

// share gives work to a worker that has none: the directories found, or half
// of the entries from i on. It returns the batch without those.
func (w *worker) share(d *dir, batch []dirent, i int) []dirent {
	if len(w.found) > 0 {
		w.flush(d)
		return batch
	}
	if len(batch)-i < minShare {
		return batch
	}
	half := i + (len(batch)-i)/2
	w.queue.share(d, slices.Clone(batch[half:]))
	return batch[:half]
}

// flush puts the directories that were found into the queue.
func (w *worker) flush(d *dir) {
	if len(w.found) > 0 {
		w.queue.add(d, w.found)
		w.found = w.found[:0]
	}
}

// visitEntry visits one entry, unless the options leave it out.
func (w *worker) visitEntry(d *dir, listed dirent) error {
	e := &w.entry
	*e = Entry{Name: listed.name, Type: listed.typ, in: d, value: d.value}
	if !w.resolve(e) || w.leavesOut(e) {
		return nil
	}
	e.descend = e.Type == fs.ModeDir && e.Err == nil
	if err := w.visit(w.id, e); err != nil {
		return err
	}
	if e.descend {
		w.found = append(w.found, &dir{parent: d, name: e.Name, linked: e.linked, value: e.value})
	}
	return nil
}

// resolve finds out the type of an entry if the directory does not say it. It
// reports false if the file is gone.
func (w *worker) resolve(e *Entry) bool {
	if e.Type == unknownType {
		attr, err := e.Stat(false)
		if errors.Is(err, fs.ErrNotExist) {
			return false
		}
		e.Type, e.Err = attr.Type, err
	}
	if e.Type == fs.ModeSymlink && w.opts.Follow {
		attr, err := e.Stat(true)
		if err != nil {
			e.Err = err
			return true
		}
		e.Type, e.linked = attr.Type, true
	}
	return true
}

// leavesOut reports whether the options leave the entry out.
func (w *worker) leavesOut(e *Entry) bool {
	if w.opts.hides(e.in.rules, e.Name, e.Type == fs.ModeDir) {
		return true
	}
	return w.opts.Prune != nil && w.opts.Prune(e.Rel(), e.Type)
}
