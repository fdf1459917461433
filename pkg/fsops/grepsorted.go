package fsops

import (
	"context"
	"iter"
	"strings"
	"sync"
)

// A grepEntry is a file to search, or an error in place of one.
type grepEntry struct {
	name string // as it is reported
	path string // where it is
	// named says that the caller named it.
	named bool
	err   error
}

// A grepJob is an entry for some worker. The jobs' results are taken in the
// order of the jobs.
type grepJob struct {
	entry   grepEntry
	batches chan []GrepResult
	// aside is complete when batches is closed.
	aside grepAside
	// turn is closed when the results are being taken.
	turn chan struct{}
}

// A jobOutlet carries the results of a worker's present job.
type jobOutlet struct {
	ctx context.Context
	job *grepJob
}

func (o *jobOutlet) send(batch []GrepResult) error {
	select {
	case o.job.batches <- batch:
		return nil
	case <-o.ctx.Done():
		return o.ctx.Err()
	}
}

func (o *jobOutlet) offer(batch []GrepResult) bool {
	select {
	case o.job.batches <- batch:
		return true
	default:
		return false
	}
}

func (o *jobOutlet) end(batch []GrepResult) (taken bool, err error) {
	if len(batch) == 0 {
		return false, nil
	}
	return true, o.send(batch)
}

// admit waits for the job's turn first. Otherwise the job could hold a large buffer that
// an earlier job needs, while its own results wait for that one: a deadlock.
func (o *jobOutlet) admit(memory *budget) (func(), error) {
	select {
	case <-o.job.turn:
		return memory.take(o.ctx, maxGrepSearchLine)
	case <-o.ctx.Done():
		return nil, o.ctx.Err()
	}
}

// runSorted searches the files in order. One goroutine walks, some search, and
// the caller's own takes the results; the earliest unfinished job always has a
// worker, since these take the jobs in order too.
func (g *grep) runSorted(ctx context.Context, cancel context.CancelFunc, tally *grepTally) error {
	var group sync.WaitGroup
	jobs := make(chan *grepJob)
	order := make(chan *grepJob, grepQueue)
	group.Go(func() { g.makeJobs(ctx, jobs, order) })
	workers := make([]*grepWorker, g.workers)
	for i := range workers {
		outlet := &jobOutlet{ctx: ctx}
		w := newGrepWorker(ctx, g, outlet)
		workers[i] = w
		group.Go(func() {
			for job := range jobs {
				outlet.job = job
				w.work(ctx, job)
			}
		})
	}
	last, err := tally.takeJobs(order)
	cancel()
	group.Wait()
	if last != nil {
		tally.takeAside(&last.aside)
	}
	for _, w := range workers {
		w.lines.close()
	}
	return err
}

// takeJobs takes the results of the jobs, up to an error. After an error it returns the
// last job, whose aside it has not taken.
func (t *grepTally) takeJobs(order <-chan *grepJob) (last *grepJob, err error) {
	for {
		job, ok, err := takeNext(t, order)
		if err != nil || !ok {
			return nil, err
		}
		close(job.turn)
		if err := t.takeBatches(job.batches); err != nil {
			return job, err
		}
		t.takeAside(&job.aside)
	}
}

// makeJobs makes the jobs.
func (g *grep) makeJobs(ctx context.Context, jobs, order chan<- *grepJob) {
	defer close(order)
	defer close(jobs)
	for e := range g.entries(ctx) {
		job := &grepJob{entry: e, batches: make(chan []GrepResult, 1), turn: make(chan struct{})}
		select {
		case jobs <- job:
		case <-ctx.Done():
			return
		}
		select {
		case order <- job:
		case <-ctx.Done():
			return
		}
	}
}

// work does one job. Its error does not concern the next.
func (w *grepWorker) work(ctx context.Context, job *grepJob) {
	defer close(job.batches)
	w.out.aside = &job.aside
	if e := job.entry; e.err != nil {
		_ = w.skip(e.name, e.err)
	} else {
		_ = w.searchPath(ctx, grepName{name: e.name, named: e.named}, e.path)
	}
	w.out.clear() // left over if the search was cancelled
}

// entries yields the entries of all roots, in the order of the names.
func (g *grep) entries(ctx context.Context) iter.Seq[grepEntry] {
	return func(yield func(grepEntry) bool) {
		heads := make([]grepHead, len(g.roots))
		for i, root := range g.roots {
			next, stop := iter.Pull(g.rootEntries(ctx, root))
			defer stop()
			heads[i].next = next
			heads[i].advance()
		}
		for {
			first := firstHead(heads)
			if first == nil || !yield(first.entry) {
				return
			}
			first.advance()
		}
	}
}

// A grepHead is the next one of some entries.
type grepHead struct {
	entry grepEntry
	ok    bool
	next  func() (grepEntry, bool)
}

func (h *grepHead) advance() { h.entry, h.ok = h.next() }

// firstHead returns the head whose entry comes first, nil if there is none.
func firstHead(heads []grepHead) *grepHead {
	var first *grepHead
	for i := range heads {
		h := &heads[i]
		if h.ok && (first == nil || strings.Compare(h.entry.name, first.entry.name) < 0) {
			first = h
		}
	}
	return first
}
