package fsops

import (
	"context"
	"errors"
)

// errGrepLimit says that Limit ended the search.
var errGrepLimit = errors.New("limit reached")

// A grepTally passes results to the caller, and counts them.
type grepTally struct {
	ctx   context.Context
	opts  *GrepOptions
	yield func(GrepResult) bool
	spare *grepBatches
	stats GrepStats
	// taken is what Limit limits; more says that it is reached, and what
	// remains is to find out whether there is more.
	taken int
	more  bool
	// last is the file of the latest match, and after how many context lines
	// came since.
	last  string
	after int
}

// takeAll passes the results of a file, or of several, on.
func (t *grepTally) takeAll(results []GrepResult) error {
	for i := range results {
		if err := t.ctx.Err(); err != nil {
			return err
		}
		if err := t.take(&results[i]); err != nil {
			return err
		}
	}
	t.spare.put(results)
	return nil
}

// take passes a result on, unless it is beyond the limit.
func (t *grepTally) take(r *GrepResult) error {
	switch r.Kind {
	case GrepMatch, GrepFile:
		if t.more {
			return errGrepLimit
		}
		t.count(r)
	case GrepContext:
		// After the limit's last match, only those are given that belong to
		// it: the others stand before a match beyond the limit.
		t.after++
		if t.more && (r.Path != t.last || t.after > t.opts.After) {
			return nil
		}
	case GrepFileError:
	default:
		if t.more && r.Path != t.last {
			return nil
		}
	}
	if !t.yield(*r) {
		return errStop
	}
	return nil
}

func (t *grepTally) count(r *GrepResult) {
	t.stats.Matches += max(r.Count, 1)
	t.last, t.after = r.Path, 0
	t.taken++
	t.more = t.taken == t.opts.Limit
}
