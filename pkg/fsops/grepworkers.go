package fsops

import (
	"context"
	"errors"
	"io"
	"io/fs"

	"github.com/podagent/podagent/pkg/fsops/internal/walk"
)

// A grepWorker searches one file after the other, and keeps what it can use
// for all of them.
type grepWorker struct {
	g     *grep
	out   grepEmitter
	lines lineBuffer
	file  grepFile
	// opened is the file at work; it is here because it would otherwise be
	// allocated for each.
	opened walk.File
	// files is how many were searched.
	files int64
}

func newGrepWorker(ctx context.Context, g *grep, outlet grepOutlet) *grepWorker {
	w := &grepWorker{g: g, out: grepEmitter{outlet: outlet, spare: &g.spare}}
	w.lines.whole, w.lines.blocks = g.opts.Multiline, g.blocks
	w.lines.admit = func() (func(), error) { return w.out.outlet.admit(g.longLines) }
	w.file = grepFile{opts: &g.opts, searcher: g.re.Searcher(ctx), out: &w.out}
	return w
}

// A grepName is the name that a file is reported by. Most files have nothing
// to report, so that it is made only when it is asked for.
type grepName struct {
	name  string
	root  *grepRoot
	entry *walk.Entry
}

func (n *grepName) String() string {
	if n.entry != nil {
		n.name, n.entry = n.root.join(n.entry.Rel()), nil
	}
	return n.name
}

// visit searches what the walk of a directory found, if it is to be searched.
func (w *grepWorker) visit(ctx context.Context, root *grepRoot, e *walk.Entry) error {
	name := grepName{root: root, entry: e}
	if e.Err != nil {
		return w.report(name.String(), e.Err)
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
func (w *grepWorker) searchPath(ctx context.Context, name, path string) error {
	file, info, err := openRegular(path)
	if err == nil {
		stop := abandonReads(ctx, file)
		err = w.search(ctx, grepName{name: name}, file, info.Size())
		stop()
		file.Close()
	}
	return w.ended(ctx, grepName{name: name}, err)
}

// search searches what was opened.
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
		w.files++
	case errors.Is(err, errGrepBinary):
	case errors.Is(err, fs.ErrNotExist):
		// It was removed since its directory was read.
	default:
		return w.report(name.String(), err)
	}
	return w.out.end()
}

// report says what could not be searched.
func (w *grepWorker) report(name string, err error) error {
	if errors.Is(err, walk.ErrNotRegular) {
		err = ErrNotRegular
	}
	if err := w.out.emit(GrepResult{Kind: GrepFileError, Path: name, Err: pathError("grep", name, err)}); err != nil {
		return err
	}
	return w.out.end()
}
