package fsops

import (
	"context"
	"errors"
	"io/fs"
	"runtime"
	"sync"
)

// A grepJob is a file to be searched by some worker. The jobs' results are
// taken in the order of the jobs.
type grepJob struct {
	entry    grepEntry
	results  chan GrepResult
	searched bool // valid once results is closed
	// turn is closed when the results are being taken.
	turn chan struct{}
}

// admitLongLine waits until the job may have a large buffer. It waits for its
// turn first: a job that waited for its results to be taken, and held a buffer
// that an earlier job needs, would never get on.
func (g *grep) admitLongLine(ctx context.Context, job *grepJob) (done func(), err error) {
	select {
	case <-job.turn:
		return g.longLines.take(ctx, maxGrepSearchLine)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// run searches all files. One goroutine walks, some search, and the caller's
// own takes the results in order; the earliest unfinished job always has a
// worker, since these take the jobs in order too.
func (g *grep) run(ctx context.Context, yield func(GrepResult) bool) error {
	inner, cancel := context.WithCancel(ctx)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer cancel()
	jobs := make(chan *grepJob)
	order := make(chan *grepJob, grepQueue)
	workers.Go(func() { g.walk(inner, jobs, order) })
	for range min(runtime.GOMAXPROCS(0), maxGrepWorkers) {
		workers.Go(func() { g.work(inner, jobs) })
	}
	err := g.collect(order, yield)
	if err == nil {
		err = pathError("grep", g.pattern, ctx.Err())
	}
	g.stats.Truncated = errors.Is(err, errGrepLimit)
	if err == nil || g.stats.Truncated {
		yield(GrepResult{Kind: GrepDone, Stats: g.stats})
		return nil
	}
	return err
}

// collect takes the jobs' results.
func (g *grep) collect(order <-chan *grepJob, yield func(GrepResult) bool) error {
	for job := range order {
		close(job.turn)
		for r := range job.results {
			if err := g.take(r, yield); err != nil {
				g.stats.Files++ // up to here
				return err
			}
		}
		if job.searched {
			g.stats.Files++
		}
	}
	return nil
}

// walk makes the jobs.
func (g *grep) walk(ctx context.Context, jobs, order chan<- *grepJob) {
	defer close(order)
	defer close(jobs)
	for e := range g.files() {
		job := &grepJob{entry: e, results: make(chan GrepResult, grepAhead), turn: make(chan struct{})}
		select {
		case order <- job:
		case <-ctx.Done():
			return
		}
		if e.err != nil {
			job.results <- GrepResult{Kind: GrepFileError, Path: e.name, Err: e.err}
			close(job.results)
			continue
		}
		select {
		case jobs <- job:
		case <-ctx.Done():
			close(job.results)
			return
		}
	}
}

// work searches files until there are no more.
func (g *grep) work(ctx context.Context, jobs <-chan *grepJob) {
	var lines lineBuffer
	for job := range jobs {
		g.search(ctx, job, &lines)
	}
}

// search searches the file of one job.
func (g *grep) search(ctx context.Context, job *grepJob, lines *lineBuffer) {
	defer close(job.results)
	emit := func(r GrepResult) bool {
		select {
		case job.results <- r:
			return true
		case <-ctx.Done():
			return false
		}
	}
	err := g.searchFile(ctx, job, lines, emit)
	switch {
	case err == nil || errors.Is(err, errStop):
		job.searched = true
	case errors.Is(err, errGrepBinary) || ctx.Err() != nil:
	case errors.Is(err, fs.ErrNotExist):
		// It was removed since its directory was read.
	default:
		emit(GrepResult{Kind: GrepFileError, Path: job.entry.name, Err: pathError("grep", job.entry.name, err)})
	}
}

func (g *grep) searchFile(ctx context.Context, job *grepJob, lines *lineBuffer, emit func(GrepResult) bool) error {
	file, _, err := openRegular(job.entry.path)
	if err != nil {
		return err
	}
	defer file.Close()
	defer abandonReads(ctx, file)()
	search := grepFile{
		ctx: ctx, path: job.entry.name, matcher: g.matcher, opts: &g.opts, emit: emit,
		admit: func() (func(), error) { return g.admitLongLine(ctx, job) },
	}
	return search.run(file, lines)
}
