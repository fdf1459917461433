package ignore

import (
	"fmt"
	"strings"
	"sync"
	"syscall"
)

// errBudget says that a walk has no room for the rules of a file.
var errBudget = fmt.Errorf("its rules do not apply, since a search holds up to %d MiB and %d rules, of which %d have wildcards: %w", maxBytes>>20, maxRules, maxWild, syscall.EFBIG)

// A budget is the room that a walk has for rules. All of its directories share it.
type budget struct {
	mu   sync.Mutex
	left cost
}

// A cost is what rules take of a budget: the bytes of their text, their number, and the
// work that those with wildcards make.
type cost struct{ bytes, rules, wild int }

// costOf returns what the rules of a text take, or more, without compiling them.
func costOf(text []byte) cost {
	c := cost{bytes: len(text)}
	for line := range ruleLines(text) {
		c.rules++
		r, glob := splitRule(string(line))
		c.wild += r.wild(glob)
	}
	return c
}

// wild is what a rule of this glob takes of [maxWild]: 0 if a table is sure to find it.
func (r *rule) wild(glob string) int {
	ext, isExt := strings.CutPrefix(glob, "*.")
	if !strings.ContainsAny(glob, `*?[`) || r.base && isExt && !strings.ContainsAny(ext, `*?[\.`) {
		return 0
	}
	return (len(glob) + wildSize - 1) / wildSize
}

func newBudget() *budget { return &budget{left: cost{maxBytes, maxRules, maxWild}} }

// take takes room, and reports whether there was enough.
func (b *budget) take(c cost) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.bytes > b.left.bytes || c.rules > b.left.rules || c.wild > b.left.wild {
		return false
	}
	b.left.add(cost{-c.bytes, -c.rules, -c.wild})
	return true
}

func (b *budget) give(c cost) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left.add(c)
}

func (c *cost) add(other cost) {
	c.bytes += other.bytes
	c.rules += other.rules
	c.wild += other.wild
}

// load reads a file of rules, and compiles them if there is room. A file that is not
// regular has none.
func (d *Dir) load(path string, stat statFunc) (Rules, error) {
	text, err := readFile(path, stat)
	if err != nil || text == nil {
		return Rules{}, err
	}
	c := costOf(text)
	if !d.budget.take(c) {
		return Rules{}, overBudget(path)
	}
	d.taken.add(c)
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
