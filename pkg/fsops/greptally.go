package fsops

import (
	"context"
	"errors"
	"time"
)

// errGrepLimit says that Limit ended the search.
var errGrepLimit = errors.New("limit reached")

// A grepTally passes results to the caller, and counts them.
type grepTally struct {
	ctx     context.Context
	opts    *GrepOptions
	yield   func([]GrepResult) bool
	spare   *grepBatches
	stats   GrepStats
	skipped SkippedError
	// After the first results, which somebody waits for, others gather until there are
	// many, or until the pause since the first of them is over.
	begun   bool
	pending []GrepResult
	size    int // bytes that they hold
	pause   *time.Timer
	// taken is the number that Limit limits; more says that it is reached, and that the
	// search goes on only to learn whether there is more.
	taken int
	more  bool
	// last is the file of the latest match, and after the number of context lines since.
	last  string
	after int
}

// takeAll takes all results of a batch, and gives the batch back to be filled again.
func (t *grepTally) takeAll(batch []GrepResult) error {
	if err := t.ctx.Err(); err != nil {
		return err
	}
	wanted, ended := t.limit(batch)
	if err := t.gather(wanted); err != nil {
		return err
	}
	t.spare.put(batch)
	return ended
}

// gather passes results on, now or later.
func (t *grepTally) gather(results []GrepResult) error {
	if !t.begun || len(t.pending) == 0 && len(results) >= grepBatch {
		return t.pass(results)
	}
	if len(t.pending) == 0 && len(results) > 0 {
		t.pause.Reset(grepPause)
	}
	t.pending = append(t.pending, results...)
	for i := range results {
		t.size += results[i].size()
	}
	if len(t.pending) >= grepBatch || t.size >= grepBatchSize {
		return t.flush()
	}
	return nil
}

// flush passes on what has gathered.
func (t *grepTally) flush() error {
	err := t.pass(t.pending)
	clear(t.pending) // holds on to nothing
	t.pending, t.size = t.pending[:0], 0
	return err
}

func (t *grepTally) pass(results []GrepResult) error {
	if len(results) == 0 {
		return nil
	}
	t.begun = true
	if !t.yield(results) {
		return errStop
	}
	return nil
}

// takeNext receives from a channel of a search. While it waits, the pause may end.
func takeNext[T any](t *grepTally, from <-chan T) (value T, ok bool, err error) {
	for {
		var over <-chan time.Time
		if len(t.pending) > 0 {
			over = t.pause.C
		}
		select {
		case value, ok = <-from:
			return value, ok, nil
		case <-over:
			if err := t.flush(); err != nil {
				return value, false, err
			}
		}
	}
}

// takeBatches takes all batches of a channel.
func (t *grepTally) takeBatches(batches <-chan []GrepResult) error {
	for {
		batch, ok, err := takeNext(t, batches)
		if err != nil || !ok {
			return err
		}
		if err := t.takeAll(batch); err != nil {
			return err
		}
	}
}

// limit counts the results, and returns those that are within the limit. Its error
// says that there was a match beyond it.
func (t *grepTally) limit(batch []GrepResult) ([]GrepResult, error) {
	wanted := batch[:0]
	for i := range batch {
		switch r := &batch[i]; {
		case r.Kind == GrepContext:
			// After the last match within the limit, only its own context is given: later
			// context belongs to a match beyond the limit.
			t.after++
			if t.more && (r.Path != t.last || t.after > t.opts.After) {
				continue
			}
		case t.more:
			return wanted, errGrepLimit
		default:
			t.count(r)
		}
		if len(wanted) < i {
			batch[len(wanted)] = batch[i]
		}
		wanted = batch[:len(wanted)+1]
	}
	return wanted, nil
}

func (t *grepTally) count(r *GrepResult) {
	t.stats.Matches += max(r.Count, 1)
	t.last, t.after = r.Path, 0
	t.taken++
	t.more = t.taken == t.opts.Limit
}

// takeAside adds what was noted beside results.
func (t *grepTally) takeAside(a *grepAside) {
	t.stats.Files += a.files
	t.stats.Binary += a.binary
	t.stats.Shortened += a.shortened
	t.skipped.add(&a.skipped)
}

// A grepAside is noted beside the results of files, for the end of the search.
type grepAside struct {
	// files is how many were searched.
	files             int64
	binary, shortened int64
	skipped           SkippedError
}
