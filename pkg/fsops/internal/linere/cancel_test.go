package linere

import (
	"context"
	"strings"
	"testing"
)

// asked is a context that ends after a number of calls of Err, and so in the middle
// of a search, however fast that is.
type asked struct {
	context.Context
	left int
}

func (a *asked) Err() error {
	if a.left--; a.left < 0 {
		return context.Canceled
	}
	return nil
}

// Each of these searches would take minutes to days.
func TestSearchOfAnEndlessTextEndsWithItsContext(t *testing.T) {
	const (
		asks = 1000 // calls of Err before the end
		more = 10   // calls after it: each part of a search may make one
	)
	exploding, line := "(?:[ab]*a[ab]{100}){9}[c-w]|x", string(manyLines("ab", 8<<20))
	oneLine := strings.ReplaceAll(line, "\n", "a")
	for _, test := range []struct {
		name, pattern, text string
		opts                Options
	}{
		{"lines", exploding, line, Options{}},
		{"one line", exploding, oneLine, Options{}},
		{"spans", exploding, oneLine + "x", Options{}},
		{"quadratic spans", "a[ab]*c|[ab]", oneLine, Options{}},
		{"words", exploding, oneLine + " x", Options{Word: true}},
		{"multiline", "(?s)" + strings.Repeat(".*a", 9000) + "[c-w]", line, Options{Multiline: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			re, err := Compile(test.pattern, test.opts)
			if err != nil {
				t.Fatal(err)
			}
			ctx := &asked{Context: t.Context(), left: asks}
			s := re.Searcher(ctx)
			for _, line := range allLines(s, []byte(test.text)) {
				s.Spans(nil, []byte(test.text)[line.Start:line.End], len(test.text))
			}
			if t.Log(-ctx.left); ctx.left >= 0 || ctx.left < -more {
				t.Errorf("the search asked %d times whether it has to end, want %d and a few", asks-ctx.left, asks)
			}
		})
	}
}

func TestSearchFindsNothingAfterItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, opts := range []Options{{}, {Word: true}, {Multiline: true}} {
		re, err := Compile(`\w+$`, opts)
		if err != nil {
			t.Fatal(err)
		}
		re.atOnce = 0
		text := []byte("some words")
		if start, end, ok := re.Searcher(ctx).Next(text, 0); ok {
			t.Errorf("%+v: finds the line from %d to %d", opts, start, end)
		}
		if spans := re.Searcher(ctx).Spans(nil, text, 9); len(spans) > 0 {
			t.Errorf("%+v: finds %v", opts, spans)
		}
	}
}
