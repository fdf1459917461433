package secret

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// A text would otherwise be read in several ways, of which a pattern tries one only.
func TestNoSpellingBeginsAnotherOne(t *testing.T) {
	chars := []string{"\u2028", "\u4e2d", "\ufeff", "\ufffd", "\U0001f600"}
	for r := rune(1); r < 0x300; r++ {
		chars = append(chars, string(r))
	}
	for b := 0x80; b < 0x100; b++ {
		chars = append(chars, string([]byte{byte(b)}))
	}
	for name, d := range map[string]*dialect{
		"exact": exact, "backslashed": backslashed, "quoted": quoted, "doubled": doubled,
		"percent": percent, "html": html, "hexadecimal": hexadecimal, "base64": base64,
	} {
		for _, char := range chars {
			if d.size(char) != len(char) || d == base64 && char < "+" {
				continue // it does not occur
			}
			all := d.spell(char)
			for i, one := range all {
				for j, other := range all {
					if i != j && strings.HasPrefix(one, other) {
						t.Errorf("%s spells %q as %q and %q", name, char, one, other)
					}
				}
				if d.gap != "" && strings.ContainsAny(one, d.gap) {
					t.Errorf("%s spells %q as %q, which may be a gap", name, char, one)
				}
			}
		}
	}
}

func TestNamesOfLatin1(t *testing.T) {
	if n := len(strings.Fields(latin1)); n != 0x100-0xa0 {
		t.Fatalf("%d names", n)
	}
	for name, want := range map[string]rune{"nbsp": 0xa0, "reg": '®', "iquest": '¿', "Agrave": 'À', "szlig": 'ß', "eacute": 'é', "divide": '÷', "yuml": 'ÿ'} {
		if entity(want) != name || utf8.RuneLen(want) != 2 {
			t.Errorf("%c is %s, want %s", want, entity(want), name)
		}
	}
}
