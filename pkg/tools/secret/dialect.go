package secret

import (
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// A dialect is a way in which programs write a text. It lists all spellings of a
// character, because programs differ in what they escape, and how. No spelling of a
// character begins another one: so there is one way at most to read a text.
type dialect struct {
	// size returns the length of the first character of a text that is not empty.
	size func(text string) int
	// spell returns the spellings of a character.
	spell func(char string) []string
	// gap has the bytes that may stand between two characters.
	gap string
	// least is the length at which a part of a text, left by a cut, is replaced: it
	// stands for MinPart bytes of the text.
	least int
}

// The dialects.
var (
	exact       = &dialect{size: runeSize, spell: itself, least: MinPart}
	backslashed = &dialect{size: runeSize, spell: inBackslashes, least: MinPart}
	quoted      = &dialect{size: runeSize, spell: inSingleQuotes, least: MinPart}
	doubled     = &dialect{size: runeSize, spell: inDoubledQuotes, least: MinPart}
	percent     = &dialect{size: runeSize, spell: inPercent, least: MinPart}
	html        = &dialect{size: runeSize, spell: inHTML, least: MinPart}
	// Dumps separate bytes by blanks or colons, and break lines.
	hexadecimal = &dialect{size: byteSize, spell: inHex, gap: " \t\r\n:", least: 2 * MinPart}
	// base64 is for the result of [cores]. Many programs break lines at 76 characters
	// (RFC 2045), or 64 (RFC 7468).
	base64 = &dialect{size: byteSize, spell: inBase64, gap: "\r\n", least: (8*MinPart + 5) / 6}
)

// replacement is what many programs print for a byte that is not UTF-8.
const replacement = string(utf8.RuneError)

// isReplaced reports whether a character is a byte that is not UTF-8, and that does not
// begin the replacement.
func isReplaced(char string) bool {
	return !utf8.ValidString(char) && char != replacement[:1]
}

func runeSize(text string) int {
	_, size := utf8.DecodeRuneInString(text)
	return size
}

func byteSize(string) int { return 1 }

func itself(char string) []string { return []string{char} }

// inBackslashes spells a character as programming languages, JSON and shells do,
// without their quotes: in C, Go, Python, JavaScript, Ruby and Rust; and for shells
// as in "…" and $'…', and as printf %q.
func inBackslashes(char string) []string {
	r, _ := utf8.DecodeRuneInString(char)
	all := []string{char}
	switch {
	case char == `\`:
		all = nil // it is an escape itself
	case isReplaced(char):
		all = append(all, replacement)
		all = append(all, cased(fmt.Sprintf(`\u%04x`, 0xdc00+int(char[0])))...) // Python's surrogateescape
	}
	if len(char) > 1 || !isAlphanumeric(r) {
		all = append(all, `\`+strings.Join(bytesOf(char), `\`))
	}
	if at := strings.IndexRune("\a\b\t\n\v\f\r\x1b", r); at >= 0 {
		letter := `\` + "abtnvfre"[at:at+1]
		all = append(all, letter, `$'`+letter+`'`)
	}
	if r == 0x1b {
		all = append(all, `\E`)
	}
	all = append(all, eachByte(`\%03o`, char))
	all = append(all, cased(eachByte(`\x%02x`, char))...)
	// U+00C3 as \xc3 would begin its two bytes.
	if r > 0x7f && r <= 0xff && r != 0xc3 {
		all = append(all, cased(fmt.Sprintf(`\x%02x`, r))...)
	}
	for _, code := range []string{unicodeEscape(r), fmt.Sprintf(`\u{%x}`, r), fmt.Sprintf(`\U%08x`, r)} {
		all = append(all, cased(code)...)
	}
	return all
}

// unicodeEscape returns a rune as JSON escapes it.
func unicodeEscape(r rune) string {
	if high, low := utf16.EncodeRune(r); r > 0xffff {
		return fmt.Sprintf(`\u%04x\u%04x`, high, low)
	}
	return fmt.Sprintf(`\u%04x`, r)
}

// eachByte formats each byte.
func eachByte(format, s string) string {
	var all strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&all, format, s[i])
	}
	return all.String()
}

// bytesOf returns each byte.
func bytesOf(s string) []string {
	var all []string
	for i := range len(s) {
		all = append(all, s[i:i+1])
	}
	return all
}

// cased returns an escape in lower case, and with its hexadecimal digits in upper case.
func cased(escape string) []string {
	upper := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'f' {
			return r - 'a' + 'A'
		}
		return r
	}, escape)
	if upper == escape {
		return []string{escape}
	}
	return []string{escape, upper}
}

func isAlphanumeric(r rune) bool {
	return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}

// inSingleQuotes spells a character as shells do within '…': bash, dash and zsh
// differ in what they do with a quote, and GNU's printf leaves the quotes for what is
// not printable. Doubled quotes are those of SQL and YAML.
func inSingleQuotes(char string) []string {
	if char == "'" {
		return []string{`'\''`, `'"'"'`, `''`}
	}
	all := []string{char}
	if at := strings.Index("\a\b\t\n\v\f\r", char); at >= 0 {
		all = append(all, `'$'\`+"abtnvfr"[at:at+1]+`''`)
	}
	if char < " " || char > "~" {
		all = append(all, `'$'`+eachByte(`\%03o`, char)+`''`)
	}
	return all
}

// inDoubledQuotes spells a character as in a field of CSV (RFC 4180).
func inDoubledQuotes(char string) []string {
	if char == `"` {
		return []string{`""`}
	}
	return []string{char}
}

// inPercent spells a character as in a URL (RFC 3986), or in a form, where a blank is
// a plus.
func inPercent(char string) []string {
	all := cased(eachByte("%%%02x", char))
	switch {
	case char == "%":
		return all
	case char == " ":
		all = append(all, "+")
	case isReplaced(char):
		all = append(all, replacement)
		all = append(all, cased(eachByte("%%%02x", replacement))...)
	}
	return append(all, char)
}

// inHTML spells a character as in HTML and XML, also in one attribute or with
// everything escaped.
func inHTML(char string) []string {
	r, _ := utf8.DecodeRuneInString(char)
	all := []string{fmt.Sprintf("&#%d;", r)}
	all = append(all, cased(fmt.Sprintf("&#x%x;", r))...)
	if r < 100 {
		all = append(all, fmt.Sprintf("&#%03d;", r))
	}
	if name := entity(r); name != "" {
		all = append(all, "&"+name+";")
	}
	if r != '&' {
		all = append(all, char)
	}
	if isReplaced(char) {
		all = append(all, replacement)
	}
	return all
}

// latin1 are the names of U+00A0 to U+00FF in HTML 4, which is as far as most
// programs go (htmlentities of PHP, for one).
const latin1 = "nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr " +
	"deg plusmn sup2 sup3 acute micro para middot cedil sup1 ordm raquo frac14 frac12 frac34 iquest " +
	"Agrave Aacute Acirc Atilde Auml Aring AElig Ccedil Egrave Eacute Ecirc Euml Igrave Iacute Icirc Iuml " +
	"ETH Ntilde Ograve Oacute Ocirc Otilde Ouml times Oslash Ugrave Uacute Ucirc Uuml Yacute THORN szlig " +
	"agrave aacute acirc atilde auml aring aelig ccedil egrave eacute ecirc euml igrave iacute icirc iuml " +
	"eth ntilde ograve oacute ocirc otilde ouml divide oslash ugrave uacute ucirc uuml yacute thorn yuml"

// entity returns the name of a rune in HTML; empty if none is known here.
func entity(r rune) string {
	switch r {
	case '&':
		return "amp"
	case '<':
		return "lt"
	case '>':
		return "gt"
	case '"':
		return "quot"
	case '\'':
		return "apos"
	}
	if r < 0xa0 || r > 0xff {
		return ""
	}
	return strings.Fields(latin1)[r-0xa0]
}

func inHex(char string) []string { return cased(eachByte("%02x", char)) }

// inBase64 spells a character in the standard alphabet, and in that for URLs (RFC
// 4648).
func inBase64(char string) []string {
	switch char {
	case "+":
		return []string{"+", "-"}
	case "/":
		return []string{"/", "_"}
	}
	return []string{char}
}
