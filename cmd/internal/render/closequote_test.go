package render

import "testing"

func TestCloseQuoteEndsEachPattern(t *testing.T) {
	for pattern, want := range map[string]string{
		``: ``, `a`: `a`, `\Qa.b`: `\Qa.b\E`, `\Qa\E.`: `\Qa\E.`, `\\Qa`: `\\Qa`, `\\\Qa`: `\\\Qa\E`,
		`\Qa\E\Qb`: `\Qa\E\Qb\E`, `\Qa\\E`: `\Qa\\E`, `a\`: `a\`,
	} {
		if got := closeQuote(pattern); got != want {
			t.Errorf("%s: %s, want %s", pattern, got, want)
		}
	}
}
