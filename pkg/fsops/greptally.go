package fsops

import (
	"context"
	"errors"
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
	// taken is what Limit limits; more says that it is reached, and what
	// remains is to find out whether there is more.
	taken int
	more  bool
	// last is the file of the latest match, and after how many context lines
	// came since.
	last  string
	after int
}

// takeAll passes on a batch, which is not looked at again.
func (t *grepTally) takeAll(batch []GrepResult) error {
	if err := t.ctx.Err(); err != nil {
		return err
	}
	wanted, ended := t.limit(batch)
	if len(wanted) > 0 && !t.yield(wanted) {
		return errStop
	}
	t.spare.put(batch)
	return ended
}

// limit counts the results, and returns those that are within the limit. Its error
// says that there was a match beyond it.
func (t *grepTally) limit(batch []GrepResult) ([]GrepResult, error) {
	wanted := batch[:0]
	for i := range batch {
		switch r := &batch[i]; {
		case r.Kind == GrepContext:
			// After the limit's last match, only those are given that belong to
			// it: the others stand before a match beyond the limit.
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

// A grepAside is what is noted of files beside their results, for the search's end.
type grepAside struct {
	// files is how many were searched.
	files             int64
	binary, shortened int64
	skipped           SkippedError
}
