package fsops

import (
	"context"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/podagent/podagent/pkg/fsops/internal/walk"
)

// grepShared is what the workers of an unsorted search share.
type grepShared struct {
	ctx     context.Context
	batches chan []GrepResult
	// turn is locked while only a part of a file's results has been handed over.
	turn sync.Mutex
	// begun says that results were handed over.
	begun atomic.Bool
}

func (s *grepShared) send(batch []GrepResult) error {
	select {
	case s.batches <- batch:
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

// A sharedOutlet carries the results of one of several workers as they come, but those
// of one file together.
type sharedOutlet struct {
	*grepShared
	// mine says that this worker has the turn.
	mine bool
}

func (o *sharedOutlet) take() {
	if !o.mine {
		o.turn.Lock()
		o.mine = true
	}
}

func (o *sharedOutlet) leave() {
	if o.mine {
		o.mine = false
		o.turn.Unlock()
	}
}

func (o *sharedOutlet) send(batch []GrepResult) error {
	o.take()
	return o.grepShared.send(batch)
}

func (o *sharedOutlet) offer(batch []GrepResult) bool {
	had := o.mine
	if !had && !o.turn.TryLock() {
		return false
	}
	o.mine = true
	select {
	case o.batches <- batch:
		return true
	default:
	}
	if !had {
		o.leave()
	}
	return false
}

// end keeps the results of a small file until somebody waits for some.
func (o *sharedOutlet) end(batch []GrepResult) (taken bool, err error) {
	if len(batch) > 0 {
		if taken = o.mine; taken {
			err = o.send(batch)
		} else {
			taken = o.offer(batch)
		}
	}
	o.leave()
	if taken && !o.begun.Load() && !o.begun.Swap(true) {
		letOthersRun()
	}
	return taken, err
}

// letOthersRun yields the processor to waiting goroutines. The workers would otherwise
// keep it until they are preempted, and the first results would wait.
func letOthersRun() {
	for range grepYields {
		runtime.Gosched()
	}
}

// admit takes the turn first. Otherwise a worker could wait for the turn with a large
// buffer that the worker whose turn it is needs: a deadlock.
func (o *sharedOutlet) admit(memory *budget) (func(), error) {
	o.take()
	return memory.take(o.ctx, maxGrepSearchLine)
}

// runUnsorted searches the files where the walk finds them. The caller's own
// goroutine takes the results.
func (g *grep) runUnsorted(ctx context.Context, cancel context.CancelFunc, tally *grepTally) error {
	shared := &grepShared{ctx: ctx, batches: make(chan []GrepResult, grepAhead)}
	workers := make([]*grepWorker, g.workers)
	for i := range workers {
		workers[i] = newGrepWorker(ctx, g, &sharedOutlet{grepShared: shared})
		workers[i].out.aside = &grepAside{}
	}
	var search sync.WaitGroup
	search.Go(func() {
		defer close(shared.batches)
		g.searchRoots(ctx, shared, workers)
	})
	err := tally.takeBatches(shared.batches)
	cancel()
	search.Wait()
	for _, w := range workers {
		tally.takeAside(w.out.aside)
		w.lines.close()
	}
	return err
}

// searchRoots searches all roots. It ends early when ctx does.
func (g *grep) searchRoots(ctx context.Context, shared *grepShared, workers []*grepWorker) {
	g.searchNamed(ctx, workers)
	for _, root := range g.roots {
		if root.dir && ctx.Err() == nil {
			g.searchTree(ctx, root, workers)
		}
	}
	for _, w := range workers {
		if len(w.out.batch) > 0 && shared.send(w.out.batch) != nil {
			return
		}
	}
}

// searchNamed searches the files that the caller named, and notes the errors of other
// paths.
func (g *grep) searchNamed(ctx context.Context, workers []*grepWorker) {
	var next atomic.Int64
	var group sync.WaitGroup
	for _, w := range workers {
		group.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(g.roots)); i = next.Add(1) - 1 {
				if g.searchRoot(ctx, g.roots[i], w) != nil {
					return
				}
			}
		})
	}
	group.Wait()
}

func (g *grep) searchRoot(ctx context.Context, root *grepRoot, w *grepWorker) error {
	for _, fault := range root.faults {
		if err := w.skip(fault.name, fault.err); err != nil {
			return err
		}
	}
	if root.file && g.selects(filepath.Base(root.path)) {
		return w.searchPath(ctx, grepName{name: root.name, named: true}, root.path)
	}
	return nil
}

// searchTree searches a directory.
func (g *grep) searchTree(ctx context.Context, root *grepRoot, workers []*grepWorker) {
	opts := walk.Options{
		Workers: len(workers), NoHidden: !g.opts.Hidden, NoGit: !g.opts.NoIgnore, Ignore: root.rules,
		Follow: g.opts.Follow, Prune: g.pruner(root),
	}
	_ = walk.Tree(ctx, root.path, opts, func(worker int, e *walk.Entry) error {
		return workers[worker].visit(ctx, root, e)
	}) // which fails only if ctx ended
}
