package secret

import (
	standard "encoding/base64"
	"strings"
)

const (
	// minLine is the least length in bytes at which a line of a multi-line secret is
	// redacted by itself. Many secrets share shorter lines, such as a bracket or the
	// name of a field.
	minLine = 16
	// minEncoded is the least length in bytes of a text whose encodings are redacted.
	// The part of base64 that is the same whatever surrounds a text has 10 characters
	// then, of 60 bits. Four bytes would have 5 characters there: a word of any language,
	// or a part of one, in any text. In hex, they would have eight digits, as many numbers
	// and hashes have.
	minEncoded = 8
)

// A form is a text in a dialect.
type form struct {
	text string
	in   *dialect
}

// forms returns all forms under which a value may appear.
func forms(value string) []form {
	var all []form
	for _, text := range []string{value, strings.TrimSpace(value), strings.Join(strings.Fields(value), " ")} {
		if len(text) >= MinValue {
			all = append(all, written(text)...)
			all = append(all, encoded(text)...)
		}
	}
	for line := range strings.Lines(value) {
		if line = strings.TrimSpace(line); len(line) >= minLine && len(line) < len(value) && !isArmor(line) {
			all = append(all, written(line)...)
		}
	}
	return all
}

// isArmor reports whether a line is the first or last line of a PEM block (RFC
// 7468). All keys of a kind share it, and it also appears in programs.
func isArmor(line string) bool {
	return strings.HasPrefix(line, "-----BEGIN ") || strings.HasPrefix(line, "-----END ")
}

// written returns a text unchanged, and escaped as programs write it in quotes, in
// URLs and in HTML.
func written(text string) []form {
	all := []form{{text, exact}, {text, backslashed}}
	if valid := strings.ToValidUTF8(text, replacement); valid != text && len(valid) >= MinValue {
		all = append(all, form{valid, exact}, form{valid, backslashed})
	}
	if len(text) < minEncoded {
		return all
	}
	for _, d := range []*dialect{quoted, doubled, percent, html} {
		if d.changes(text) {
			all = append(all, form{text, d})
		}
	}
	return all
}

// changes reports whether some character of a text is not written as itself.
func (d *dialect) changes(text string) bool {
	for size := 0; text != ""; text = text[size:] {
		size = d.size(text)
		if spellings := d.spell(text[:size]); len(spellings) > 1 || spellings[0] != text[:size] {
			return true
		}
	}
	return false
}

// encoded returns the encodings of a text.
func encoded(text string) []form {
	if len(text) < minEncoded {
		return nil
	}
	all := []form{{text, hexadecimal}}
	for shift := range 3 {
		all = append(all, form{core(text, shift), base64})
	}
	return all
}

// core returns the base64 of a text after shift other bytes, as far as it does not
// depend on what is before and after the text. So it has no padding.
func core(text string, shift int) string {
	code := standard.RawStdEncoding.EncodeToString([]byte("\x00\x00"[:shift] + text))
	return code[(8*shift+5)/6 : 8*(shift+len(text))/6]
}
