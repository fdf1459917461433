package render

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

var programTexts = map[string]string{
	"":                  "",
	"a\tb\r\nc\rd\be\n": "a\tb\r\nc\rd\be\n",
	"日本\u3000é \U0001f468\u200d\U0001f469\u200d\U0001f467 \ue0a0": "日本\u3000é \U0001f468\u200d\U0001f469\u200d\U0001f467 \ue0a0",

	"\x1b[31mred\x1b[m \x1b[1;4:3;38:2::1:2:3mmore\x1b[0m": "\x1b[31mred\x1b[m \x1b[1;4:3;38:2::1:2:3mmore\x1b[0m",
	"\x1b[8mhidden":  "\x1b[8mhidden\x1b[0m", // not so what follows
	"\x1b[38;5;1m\n": "\x1b[38;5;1m\n\x1b[0m",

	"\x1b[2J\x1b[H\x1b[6n\x1b[?25l\x1b[>4;2m\x1b[1 q": `\x1b[2J\x1b[H\x1b[6n\x1b[?25l\x1b[>4;2m\x1b[1 q`,
	"\x1b]0;title\a\x1b]52;c;aGk=\x1b\\":              `\x1b]0;title\a\x1b]52;c;aGk=\x1b\`,
	"\x1bP+q544e\x1b\\ \x1b_apc \x1b^pm \x1bXsos":     `\x1bP+q544e\x1b\ \x1b_apc \x1b^pm \x1bXsos`,
	"\x1bc\x1b(0\x1b#8\x1b7\x1b\x1b[1m":               "\\x1bc\\x1b(0\\x1b#8\\x1b7\\x1b\x1b[1m\x1b[0m",
	"\x00\x05\x07\x0b\x0c\x0e\x0f\x11\x18\x1a\x7f":    `\x00\x05\a\v\f\x0e\x0f\x11\x18\x1a\x7f`,
	"\x9b31m\x9d0;t\x9c \u009b31m \u0085\u0090\u009f": `\x9b31m\x9d0;t\x9c \u009b31m \u0085\u0090\u009f`,
	"\xff\xc3(\xe2\x82\xf0\x9f\x98":                   `\xff\xc3(\xe2\x82\xf0\x9f\x98`,
	"\xc0\x9b\xe0\x82\x9b\xed\xa0\x80":                `\xc0\x9b\xe0\x82\x9b\xed\xa0\x80`, // too long, a surrogate
	"a\u202eb\u2066c\u200fd\u061c":                    `a\u202eb\u2066c\u200fd\u061c`,
	"\x1b":                                            `\x1b`,
	"\x1b[":                                           `\x1b[`,
	"\x1b[1;":                                         `\x1b[1;`,
	"\x1b[\x1b[1":                                     `\x1b[\x1b[1`,
	"\x1b[31\n":                                       `\x1b[31` + "\n",
	"\x1b[" + strings.Repeat("1", maxColor) + "m":     `\x1b[` + strings.Repeat("1", maxColor) + "m",
}

// shownOf returns what a terminal gets of these writes.
func shownOf(t testing.TB, pieces ...string) string {
	var out bytes.Buffer
	w := &programText{to: &out}
	for _, p := range pieces {
		if n, err := w.Write([]byte(p)); n != len(p) || err != nil {
			t.Fatal(n, err)
		}
		if len(w.held) >= maxColor {
			t.Fatalf("%d bytes are held", len(w.held))
		}
	}
	if err := w.end(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestProgramTextOnATerminal(t *testing.T) {
	for text, want := range programTexts {
		for one := range len(text) + 1 {
			for two := one; two <= len(text); two++ {
				if got := shownOf(t, text[:one], text[one:two], text[two:]); got != want {
					t.Fatalf("%q, cut at %d and %d, is shown as %q, want %q", text, one, two, got, want)
				}
			}
		}
	}
}

func TestProgramTextIsShownAtOnce(t *testing.T) {
	var out bytes.Buffer
	w := &programText{to: &out}
	for _, step := range []struct{ write, want string }{
		{"password: ", "password: "}, {"\x1b", ""}, {"[1m", "\x1b[1m"}, {"\xe2\x82", ""}, {"\xac\r", "€\r"}, {"\x1b[2", ""}, {"K", `\x1b[2K`},
	} {
		io.WriteString(w, step.write)
		if got := out.String(); got != step.want {
			t.Errorf("after %q: %q, want %q", step.write, got, step.want)
		}
		out.Reset()
	}
}

func TestProgramTextAnywhereElseIsUnchanged(t *testing.T) {
	var out bytes.Buffer
	if w, end := ProgramText(&out, false); w != &out || end() != nil {
		t.Error("a buffer gets other bytes")
	}
}

// drivesTerminal reports whether a terminal would obey a text in more than it may.
func drivesTerminal(text string) bool {
	text = regexp.MustCompile(`\x1b\[[0-9;:]*m`).ReplaceAllString(text, "")
	return !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool {
		return unicode.IsControl(r) && !strings.ContainsRune("\n\r\t\b", r) || unicode.Is(unicode.Bidi_Control, r)
	})
}

// FuzzProgramText checks that nothing drives a terminal, wherever a text is cut into
// writes; that it does not matter how; and that what is harmless is unchanged.
func FuzzProgramText(f *testing.F) {
	for text := range programTexts {
		f.Add(text, uint8(1), uint8(1))
	}
	f.Fuzz(func(t *testing.T, text string, one, two uint8) {
		whole := shownOf(t, text)
		i := min(int(one), len(text))
		j := min(i+int(two), len(text))
		if got := shownOf(t, text[:i], text[i:j], text[j:]); got != whole {
			t.Errorf("%q, cut at %d and %d, is shown as %q, whole %q", text, i, j, got, whole)
		}
		if drivesTerminal(whole) {
			t.Errorf("%q is shown as %q", text, whole)
		}
		if !drivesTerminal(text) && len(text) < maxColor && strings.TrimSuffix(whole, colorEnd) != strings.TrimSuffix(text, colorEnd) {
			t.Errorf("%q is shown as %q", text, whole)
		}
	})
}

func BenchmarkProgramText(b *testing.B) {
	for name, line := range map[string]string{
		"ASCII":  "2026-01-02T15:04:05Z INFO a line of output as a build prints it, with some words\n",
		"UTF-8":  "日本語のテキスト — naïve café, déjà vu — русский текст\n",
		"colors": "\x1b[32mok\x1b[0m  \x1b[1mpackage\x1b[0m 0.12s\n",
		"binary": "\x00\x01\x02\x7fELF\xff\xfe\x9b some text \x1b[2J\n",
	} {
		b.Run(name, func(b *testing.B) {
			text := []byte(strings.Repeat(line, 1<<20/len(line)))
			w := &programText{to: io.Discard}
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				w.Write(text)
			}
		})
	}
}
