package linere

import "strings"

// A chain collects the facts of expressions that follow one another.
type chain struct {
	// run are the texts at the end of the expressions so far.
	run []literal
	// broken says that something unknown is before the run.
	broken        bool
	prefix, inner []literal
}

func newChain() *chain { return &chain{run: []literal{{exact: true}}} }

func (c *chain) add(f facts) {
	c.inner = better(c.inner, inexact(c.run))
	if f.exact != nil {
		if run, ok := product(c.run, f.exact); ok {
			c.run = run
			return
		}
	}
	head := c.run
	if run, ok := product(c.run, f.prefix); f.prefix != nil && ok {
		head = better(head, run)
	}
	c.breakAt(head)
	c.inner = better(c.inner, inexact(f.inner))
	c.run = []literal{{}}
	if f.suffix != nil {
		c.run = inexact(f.suffix)
	}
}

// breakAt ends a run.
func (c *chain) breakAt(run []literal) {
	run = inexact(run)
	if !c.broken {
		c.broken, c.prefix = true, run
	}
	c.inner = better(c.inner, run)
}

func (c *chain) facts() facts {
	if !c.broken {
		f := exactly(c.run)
		f.inner = better(c.run, c.inner)
		return f
	}
	return facts{prefix: c.prefix, suffix: c.run, inner: better(c.inner, c.run)}
}

// product returns each of a followed by each of b, unless these are too many or
// too long.
func product(a, b []literal) ([]literal, bool) {
	if n := len(a) * len(b); n > maxAlternatives || n > maxLiterals && min(len(a), len(b)) > 1 {
		return nil, false
	}
	out := make([]literal, 0, len(a)*len(b))
	for _, x := range a {
		for _, y := range b {
			if len(x.text)+len(y.text) > maxLiteral {
				return nil, false
			}
			out = append(out, joined(x, y))
		}
	}
	return out, true
}

// joined returns the literal of two that follow one another. If one of them is of
// either case, so is the whole; it may then be found where the two are not.
func joined(x, y literal) literal {
	l := literal{text: x.text + y.text, fold: x.fold || y.fold, exact: x.exact && y.exact}
	if l.fold {
		l.exact = l.exact && (x.fold || !hasLetter(x.text)) && (y.fold || !hasLetter(y.text))
		l.text = lower(l.text)
	}
	return l
}

func hasLetter(s string) bool { return strings.IndexFunc(s, isLetter) >= 0 }

func isLetter(r rune) bool { return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' }

// lower changes only letters of ASCII to their lower case.
func lower(s string) string {
	return strings.Map(func(r rune) rune {
		if isLetter(r) {
			r |= 0x20
		}
		return r
	}, s)
}
