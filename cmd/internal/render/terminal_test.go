package render

import "testing"

func TestNamesOnATerminal(t *testing.T) {
	for name, want := range map[string]string{
		"a b": "a b", "日本": "日本", "a\nb": `"a\nb"`, "\x1b[2J": `"\x1b[2J"`, "\xff": `"\xff"`,
	} {
		if got := Terminal(true).Name(name); got != want {
			t.Errorf("%q is printed as %s, want %s", name, got, want)
		}
		if got := Terminal(false).Name(name); got != name {
			t.Errorf("%q is printed as %q where there is no terminal", name, got)
		}
	}
}

func TestTextOnATerminal(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "",
		"a\tb\nc\r\n":            "a\tb\nc\r\n",
		"日本\u3000é":              "日本\u3000é",
		"\x1b]0;title\a\x00\x7f": `\x1b]0;title\a\x00\x7f`,
		"a\rb\b":                 `a\rb\b`,
		"\u009b2J\u202e":         `\u009b2J\u202e`,
		"\x9b\xff\xe2\x82":       `\x9b\xff\xe2\x82`,
	} {
		if got := string(Terminal(true).Text([]byte(text))); got != want {
			t.Errorf("%q is printed as %q, want %q", text, got, want)
		}
		if got := string(Terminal(false).Text([]byte(text))); got != text {
			t.Errorf("%q is printed as %q where there is no terminal", text, got)
		}
	}
}
