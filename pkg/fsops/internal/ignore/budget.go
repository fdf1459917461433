package ignore

import (
	"fmt"
	"sync"
	"syscall"
)

// errBudget says that a walk has no room for the rules of a file.
var errBudget = fmt.Errorf("its rules do not apply, since a search holds up to %d MiB and %d rules: %w", maxBytes>>20, maxRules, syscall.EFBIG)

// A budget is the room that a walk has for rules. All of its directories share it.
type budget struct {
	mu   sync.Mutex
	left cost
}

// A cost is what rules take of a budget: the bytes of their text, and their number.
type cost struct{ bytes, rules int }

func newBudget() *budget { return &budget{left: cost{maxBytes, maxRules}} }

// take takes room, and reports whether there was enough.
func (b *budget) take(c cost) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.bytes > b.left.bytes || c.rules > b.left.rules {
		return false
	}
	b.left.bytes -= c.bytes
	b.left.rules -= c.rules
	return true
}

func (b *budget) give(c cost) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left.bytes += c.bytes
	b.left.rules += c.rules
}

// load reads a file of rules, and compiles them if there is room. A file that is not
// regular has none.
func (d *Dir) load(path string, stat statFunc) (Rules, error) {
	text, err := readFile(path, stat)
	if err != nil || text == nil {
		return Rules{}, err
	}
	c := cost{len(text), countRules(text)}
	if !d.budget.take(c) {
		return Rules{}, overBudget(path)
	}
	d.taken.bytes += c.bytes
	d.taken.rules += c.rules
	return Parse(text), nil
}

// Release gives the room of the directory's own rules back to the walk. The caller uses
// neither d nor a directory in it any more. d may be nil.
func (d *Dir) Release() {
	if d != nil && d.taken != (cost{}) {
		d.budget.give(d.taken)
		d.taken = cost{}
	}
}
