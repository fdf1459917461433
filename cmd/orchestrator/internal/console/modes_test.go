package console

import (
	"bytes"
	"strings"
	"testing"
)

// plainReset is written to every terminal before it is given back.
const plainReset = "\x1b[m\x1b7\x1b[r\x1b8"

func TestModesOfAProgramThatIsLeftAreUndone(t *testing.T) {
	for output, want := range map[string]string{
		"": "",
		"text \x1b[31mred\x1b[0m \x1b[2J\x1b[10;20H":               "",
		"\x1b[?1049h\x1b[22;0;0t\x1b[?1h\x1b=\x1b[?2004h\x1b[?25l": "\x1b>\x1b[?1l\x1b[?25h\x1b[?2004l\x1b[?1049l", // as vim
		"\x1b[?1049h\x1b[?1049l":                                   "",
		"\x1b[?1000;1006h":                                         "\x1b[?1000l\x1b[?1006l",
		"\x1b[?1000;1006h\x1b[?1000l":                              "\x1b[?1006l",
		"\x1b[?7h\x1b[?25h\x1b[?12h":                               "",
		"\x1b[?7l":                                                 "\x1b[?7h",
		"\x1b[?25l\x1b[?1049h\x1bc":                                "",
		"\x1b=\x1b>":                                               "",
		"\x1b[>4;2m":                                               "\x1b[>4m",
		"\x1b[>4;2m\x1b[>4;m":                                      "",
		"\x1b[>4;2m\x1b[>4m":                                       "",
		"\x1b[>1u\x1b[>5u":                                         "\x1b[<2u",
		"\x1b[>1u\x1b[>5u\x1b[<u":                                  "\x1b[<1u",
		"\x1b[>1u\x1b[<9u":                                         "",
		"\x1b[25l\x1b[?xh\x1b[?;h":                                 "",
		"\x1b[\x1b[?25l":                                           "\x1b[?25h",
		"\x1b[?" + strings.Repeat("9;", 100) + "25l":               "",
	} {
		for size := 1; size <= len(output)+1; size++ {
			var shown bytes.Buffer
			w := newModeWriter(&shown)
			for rest := output; rest != ""; rest = rest[min(size, len(rest)):] {
				if _, err := w.Write([]byte(rest[:min(size, len(rest))])); err != nil {
					t.Fatal(err)
				}
			}
			if shown.String() != output {
				t.Fatalf("%q was passed on as %q", output, shown.String())
			}
			shown.Reset()
			if err := w.reset(); err != nil || shown.String() != plainReset+want {
				t.Fatalf("after %q in pieces of %d: %q, %v, want %q", output, size, shown.String(), err, plainReset+want)
			}
		}
	}
}
