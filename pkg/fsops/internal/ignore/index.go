package ignore

import "strings"

// An index finds the rules that match a file without comparing all of them. Most
// are plain names, plain paths, or an asterisk with an extension. Most others
// differ from the file in their first or last byte.
type index struct {
	names, paths, extensions table
	// rest are all other rules, in their order.
	rest []candidate
}

// A subject is a file that rules are asked about.
type subject struct {
	dir  string // the path of its directory, with a slash at its end; empty for none
	base string
	// path is both of them, put together when it is needed.
	path string
}

func (s *subject) whole() string {
	if s.path == "" {
		s.path = s.dir + s.base
	}
	return s.path
}

// A table holds the rules that compare something with a text.
type table struct {
	rules map[string]latest
	// lengths has a bit for the length of each text, modulo 64.
	lengths uint64
}

// latest is the last of the rules with the same text: of all, which hold for
// directories, and of those that hold for other files too. -1 is none.
type latest struct{ dir, file int }

// A candidate is a rule that is to be matched unless the first or the last byte differs.
type candidate struct {
	rule          int
	first, last   byte
	begins, ends  bool // first and last are set
	base, dirOnly bool // as in rule
}

func indexOf(rules []rule) index {
	var x index
	for i := range rules {
		switch r := &rules[i]; {
		case r.pattern.plain && r.base:
			x.names.put(r.pattern.literal, i, r.dirOnly)
		case r.pattern.plain:
			x.paths.put(r.pattern.literal, i, r.dirOnly)
		case r.base && r.pattern.isSuffix() && strings.LastIndexByte(r.pattern.suffix, '.') == 0:
			x.extensions.put(r.pattern.suffix, i, r.dirOnly)
		default:
			x.rest = append(x.rest, newCandidate(r, i))
		}
	}
	return x
}

func newCandidate(r *rule, i int) candidate {
	c := candidate{rule: i, base: r.base, dirOnly: r.dirOnly}
	if text := r.pattern.literal; text != "" {
		c.first, c.begins = text[0], true
	}
	if text := r.pattern.suffix; text != "" {
		c.last, c.ends = text[len(text)-1], true
	}
	return c
}

func (t *table) put(text string, rule int, dirOnly bool) {
	if t.rules == nil {
		t.rules = map[string]latest{}
	}
	l, ok := t.rules[text]
	if !ok {
		l.file = -1
	}
	if l.dir = rule; !dirOnly {
		l.file = rule
	}
	t.rules[text] = l
	t.lengths |= 1 << (len(text) % 64)
}

// has reports whether there may be a rule for a text of that length.
func (t *table) has(length int) bool { return t.lengths&(1<<(length%64)) != 0 }

// last returns the last rule for the text, -1 if there is none.
func (t *table) last(text string, isDir bool) int {
	l, ok := t.rules[text]
	switch {
	case !ok:
		return -1
	case isDir:
		return l.dir
	}
	return l.file
}

// last returns the last rule that matches the file, -1 if none does.
func (r *Rules) last(s *subject, isDir bool) int {
	x := &r.index
	found := -1
	if x.names.has(len(s.base)) {
		found = x.names.last(s.base, isDir)
	}
	if x.paths.has(len(s.dir) + len(s.base)) {
		found = max(found, x.paths.last(s.whole(), isDir))
	}
	if x.extensions.lengths != 0 {
		if dot := strings.LastIndexByte(s.base, '.'); dot >= 0 && x.extensions.has(len(s.base)-dot) {
			found = max(found, x.extensions.last(s.base[dot:], isDir))
		}
	}
	for i := len(x.rest) - 1; i >= 0 && x.rest[i].rule > found; i-- {
		if c := &x.rest[i]; c.possible(s, isDir) && r.rules[c.rule].matches(s) {
			return c.rule
		}
	}
	return found
}

// possible reports false if the ends of the path rule out a match.
func (c *candidate) possible(s *subject, isDir bool) bool {
	if c.dirOnly && !isDir || c.ends && s.base[len(s.base)-1] != c.last {
		return false
	}
	if !c.begins {
		return true
	}
	if c.base || s.dir == "" {
		return s.base[0] == c.first
	}
	return s.dir[0] == c.first
}

func (r *rule) matches(s *subject) bool {
	if r.base {
		return r.pattern.match(s.base)
	}
	return r.pattern.match(s.whole())
}
