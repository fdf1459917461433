package ignore

import "strings"

// classNames are the POSIX classes, which git knows for ASCII only, with the
// bytes that git counts to each (its "space" has no form feed).
var classNames = map[string]func(byte) bool{
	"alnum":  func(b byte) bool { return isAlpha(b) || isDigit(b) },
	"alpha":  isAlpha,
	"blank":  func(b byte) bool { return b == ' ' || b == '\t' },
	"cntrl":  func(b byte) bool { return b < 0x20 || b == 0x7f },
	"digit":  isDigit,
	"graph":  isGraph,
	"lower":  isLower,
	"print":  func(b byte) bool { return b == ' ' || isGraph(b) },
	"punct":  func(b byte) bool { return isGraph(b) && !isAlpha(b) && !isDigit(b) },
	"space":  func(b byte) bool { return strings.IndexByte(" \t\n\r", b) >= 0 },
	"upper":  isUpper,
	"xdigit": func(b byte) bool { return isDigit(b) || b >= 'a' && b <= 'f' || b >= 'A' && b <= 'F' },
}

func isLower(b byte) bool { return b >= 'a' && b <= 'z' }
func isUpper(b byte) bool { return b >= 'A' && b <= 'Z' }
func isAlpha(b byte) bool { return isLower(b) || isUpper(b) }
func isDigit(b byte) bool { return b >= '0' && b <= '9' }
func isGraph(b byte) bool { return b > 0x20 && b < 0x7f }

// parseClass reads a class whose first byte after the bracket is at i, and
// returns where the pattern goes on after it, -1 if the class has no end or a
// name that is unknown: such a pattern matches nothing.
func parseClass(glob string, i int) (*byteSet, int) {
	c := classParser{glob: glob, i: i}
	negated := c.i < len(glob) && (glob[c.i] == '!' || glob[c.i] == '^')
	if negated {
		c.i++
	}
	for first := true; ; first = false {
		if c.i >= len(glob) {
			return nil, -1
		}
		if glob[c.i] == ']' && !first {
			break
		}
		if !c.member() {
			return nil, -1
		}
	}
	if negated {
		for i := range c.set {
			c.set[i] = ^c.set[i]
		}
	}
	return &c.set, c.i + 1
}

type classParser struct {
	glob string
	i    int
	set  byteSet
	// prev is the byte that a range could begin with; 0 is none.
	prev byte
}

// member reads one byte, range or name.
func (c *classParser) member() bool {
	rest := c.glob[c.i:]
	switch {
	case strings.HasPrefix(rest, "[:"):
		return c.name(rest)
	case rest[0] == '-' && c.prev != 0 && len(rest) > 1 && rest[1] != ']':
		c.i++
		hi, ok := c.char()
		if ok {
			c.set.addRange(c.prev, hi)
		}
		c.prev = 0
		return ok
	}
	b, ok := c.char()
	if ok {
		c.set.add(b)
	}
	c.prev = b
	return ok
}

// char reads one byte that a backslash may quote.
func (c *classParser) char() (byte, bool) {
	if c.glob[c.i] == '\\' {
		c.i++
	}
	if c.i == len(c.glob) {
		return 0, false
	}
	c.i++
	return c.glob[c.i-1], true
}

// name reads a "[:name:]", which rest begins with. A bracket that does not
// look like one stands for itself.
func (c *classParser) name(rest string) bool {
	end := strings.IndexByte(rest[2:], ']')
	if end < 0 {
		return false
	}
	name, ok := strings.CutSuffix(rest[2:2+end], ":")
	if !ok {
		c.set.add('[')
		c.prev = '['
		c.i++
		return true
	}
	is, ok := classNames[name]
	if !ok {
		return false
	}
	for b := range 256 {
		if is(byte(b)) {
			c.set.add(byte(b))
		}
	}
	c.prev = 0
	c.i += 2 + end + 1
	return true
}
