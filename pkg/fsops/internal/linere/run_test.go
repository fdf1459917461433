package linere

import (
	"bytes"
	"regexp/syntax"
	"strings"
	"testing"
)

func TestRequiredRuns(t *testing.T) {
	for pattern, want := range map[string]struct {
		min int
		set string
	}{
		`[0-9a-f]{40}`:                    {40, "0123456789abcdef"},
		`\d{4}-\d{2}-\d{2}`:               {10, "-0123456789"},
		`\w+ \d{1,3}(\.\d{1,3}){3}`:       {7, ".0123456789"},
		`\b(?:[0-9A-F]{4}|[0-9a-f]{5})\b`: {4, "0123456789ABCDEFabcdef"},
		`é\d{5}\pL`:                       {5, "0123456789"},
		`(\d{8})?x`:                       {},
		`\w{5}\s+\w{5}`:                   {},
		`\d{4}|.`:                         {},
		`(?i)k{8}`:                        {},
		`[^a]{8}`:                         {},
	} {
		tree, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		r := requiredRun(withinLines(tree))
		if r == nil {
			r = &run{}
		}
		var set strings.Builder
		for b, in := range r.set {
			if in {
				set.WriteByte(byte(b))
			}
		}
		if r.min != want.min || set.String() != want.set {
			t.Errorf("%q: %d of %q, want %d of %q", pattern, r.min, &set, want.min, want.set)
		}
	}
}

func TestRunsAreFound(t *testing.T) {
	g := newGenerator(9)
	for range 8000 {
		text := []byte(g.text())
		r := &run{min: 1 + g.IntN(6)}
		r.with([]rune{'a', rune('b' + g.IntN(10)), '1', '1', 'K', 'S'})
		from := g.IntN(len(text) + 1)
		want := -1
		for at := from; at+r.min <= len(text) && want < 0; at++ {
			if bytes.IndexFunc(text[at:at+r.min], func(c rune) bool { return c >= 0x80 || !r.set[c] }) < 0 {
				want = at
			}
		}
		if got := r.find(text, from); got != want {
			t.Fatalf("%d bytes in %q from %d: at %d, want %d", r.min, text, from, got, want)
		}
	}
}
