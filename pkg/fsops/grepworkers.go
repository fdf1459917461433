package fsops

import (
	"context"
	"errors"
	"io"
	"io/fs"

	"github.com/podagent/podagent/pkg/fsops/internal/walk"
)

// A grepWorker searches one file after the other, and keeps its buffers for all of them.
type grepWorker struct {
	g     *grep
	out   grepEmitter
	lines lineBuffer
	file  grepFile
	// opened is the present file. As a field it needs no allocation for each file.
	opened walk.File
}

func newGrepWorker(ctx context.Context, g *grep, outlet grepOutlet) *grepWorker {
	w := &grepWorker{g: g, out: grepEmitter{outlet: outlet, spare: &g.spare}}
	w.lines.whole, w.lines.blocks = g.opts.Multiline, g.blocks
	w.lines.admit = func() (func(), error) { return w.out.outlet.admit(g.longLines) }
	w.file = grepFile{opts: &g.opts, searcher: g.re.Searcher(ctx), out: &w.out}
	return w
}

// A grepName is the name that a file is reported by. It is made only when it is needed,
// since most files have nothing to report.
type grepName struct {
	name string
	// named says that the caller named the file.
	named bool
	root  *grepRoot
	entry *walk.Entry
}

func (n *grepName) String() string {
	if n.entry != nil {
		n.name, n.entry = n.root.join(n.entry.Rel()), nil
	}
	return n.name
}

// visit searches an entry that the walk of a directory found, if the options want it.
func (w *grepWorker) visit(ctx context.Context, root *grepRoot, e *walk.Entry) error {
	name := grepName{root: root, entry: e}
	if e.Err != nil {
		return w.skip(name.String(), e.Err)
	}
	if !e.Type.IsRegular() || !w.g.include.Empty() && !w.g.include.Match(e.Rel(), false) {
		return nil
	}
	var err error
	if w.opened, err = e.OpenFile(); err == nil {
		err = w.search(ctx, name, &w.opened, w.opened.Size())
		_ = w.opened.Close() // nothing was written
	}
	return w.ended(ctx, name, err)
}

// searchPath searches a file by its path.
func (w *grepWorker) searchPath(ctx context.Context, name grepName, path string) error {
	file, info, err := openRegular(path)
	if err == nil {
		err = w.search(ctx, name, file, info.Size())
		file.Close()
	}
	if err == nil && name.named && w.lines.waits {
		err = errWouldWait
	}
	return w.ended(ctx, name, err)
}

// search searches an open file.
func (w *grepWorker) search(ctx context.Context, name grepName, r io.Reader, size int64) error {
	w.lines.reset(ctx, r, size)
	defer w.lines.release()
	w.file.reset(name)
	return w.file.run(ctx, &w.lines)
}

// ended ends a file's results. It fails if the search was cancelled.
func (w *grepWorker) ended(ctx context.Context, name grepName, err error) error {
	switch {
	case ctx.Err() != nil:
		_ = w.out.end()
		return ctx.Err()
	case err == nil || errors.Is(err, errStop):
		w.out.aside.files++
	case errors.Is(err, errGrepBinary) && name.named:
		return w.skip(name.String(), &BinaryError{})
	case errors.Is(err, errGrepBinary):
		w.out.aside.binary++
	case errors.Is(err, fs.ErrNotExist):
		// It was removed since its directory was read.
	default:
		return w.skip(name.String(), err)
	}
	return w.out.end()
}

// skip notes that a file could not be searched, and ends its results.
func (w *grepWorker) skip(name string, err error) error {
	if errors.Is(err, walk.ErrNotRegular) {
		err = ErrNotRegular
	}
	w.out.aside.skipped.Add(pathError("grep", name, err))
	return w.out.end()
}
