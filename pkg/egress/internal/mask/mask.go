// Package mask covers the values of secrets in what hosts answer: as they are, and as programs write
// them in JSON, URLs, base64 and hex.
//
// Code in the sandbox may choose what a host answers, and may see when each byte comes. So nothing
// that it sees depends on a part of a value: how much is held back does not, and parts of values are
// not looked for.
package mask

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

const (
	// Least is the least length of a value in bytes. Shorter ones occur by chance in what hosts answer.
	Least = 8
	// Piece is how much of an answer is searched at once, in bytes, or more for long secrets.
	Piece = 16 << 10
	// step rounds what is held back, so that it does not show a secret's length.
	step = 64
)

// Mask finds the values of secrets in what a host answers. It never changes.
type Mask struct {
	needles []Needle
	hold    int    // how many bytes at the end of a piece may begin a needle, or more
	breaks  string // bytes that no needle has
}

// Needle is a text that is masked. All spellings of a secret come from its value.
type Needle struct {
	text    []byte
	instead string // in headers
}

// New returns a mask for secrets, each with its needles.
func New(secrets ...[]Needle) *Mask {
	m := &Mask{needles: slices.Concat(secrets...)}
	m.finish()
	return m
}

// Hold is how many bytes of an answer are held back at most.
func (m *Mask) Hold() int { return m.hold }

// With returns a mask that also covers some texts with secrets in them.
func (m *Mask) With(texts []string) *Mask {
	if len(texts) == 0 {
		return m
	}
	wider := &Mask{needles: slices.Clone(m.needles)}
	for _, text := range texts {
		wider.needles = append(wider.needles, Needle{[]byte(text), strings.Repeat("*", len(text))})
	}
	wider.finish()
	return wider
}

// breakKinds are bytes between words, and between texts in text that programs read. Those of
// a kind break what is held back if no needle has one of them, so that waiting tells one bit
// of the secrets for each kind, and no more. No secret has a line break.
var breakKinds = []string{"\n", " \t", "\"'`<>()[]{},;:|"}

// finish puts the longest first, so that what is part of another one is not taken before
// that.
func (m *Mask) finish() {
	slices.SortStableFunc(m.needles, func(a, b Needle) int { return len(b.text) - len(a.text) })
	if len(m.needles) > 0 {
		m.hold = (len(m.needles[0].text)+step-1)/step*step - 1
	}
	for _, kind := range breakKinds {
		if !slices.ContainsFunc(m.needles, func(n Needle) bool { return bytes.ContainsAny(n.text, kind) }) {
			m.breaks += kind
		}
	}
}

// Needles returns the needles of a secret, each once. In headers, the placeholder is instead of its value.
func Needles(value, placeholder string) []Needle {
	var all []Needle
	for _, text := range Spellings(value) {
		same := func(n Needle) bool { return string(n.text) == text }
		if len(text) >= Least && !slices.ContainsFunc(all, same) {
			all = append(all, Needle{[]byte(text), placeholder})
		}
	}
	return all
}

// Spellings returns how programs write a value. None has a line break.
func Spellings(value string) []string {
	all := []string{value, inJSON(value, true), inJSON(value, false)}
	for _, escaped := range []string{url.QueryEscape(value), url.PathEscape(value), escapeNonASCII(value)} {
		all = append(all, escaped, lowerEscapes(escaped))
	}
	digits := hex.EncodeToString([]byte(value))
	all = append(all, digits, strings.ToUpper(digits))
	for shift := range 3 {
		for _, alphabet := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			all = append(all, base64Core(alphabet, value, shift))
		}
	}
	return all
}

// escapeNonASCII percent-encodes what no header can have, as Go's redirects do.
func escapeNonASCII(value string) string {
	var out strings.Builder
	for i := range len(value) {
		if value[i] < 0x80 {
			out.WriteByte(value[i])
		} else {
			fmt.Fprintf(&out, "%%%02X", value[i])
		}
	}
	return out.String()
}

var escape = regexp.MustCompile("%[0-9A-F]{2}")

// lowerEscapes writes the digits of percent-encoding in lower case.
func lowerEscapes(text string) string { return escape.ReplaceAllStringFunc(text, strings.ToLower) }

func inJSON(value string, escapeHTML bool) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(escapeHTML)
	if encoder.Encode(value) != nil {
		return ""
	}
	return strings.Trim(out.String(), "\"\n")
}

// base64Core returns the base64 of a value after shift other bytes, as far as it does not
// depend on what is around the value.
func base64Core(alphabet *base64.Encoding, value string, shift int) string {
	code := alphabet.EncodeToString([]byte("\x00\x00"[:shift] + value))
	return code[(8*shift+5)/6 : 8*(shift+len(value))/6]
}

// Header puts placeholders where a header has values.
func (m *Mask) Header(h http.Header) {
	for _, values := range h {
		for i, value := range values {
			for _, n := range m.needles {
				value = strings.ReplaceAll(value, string(n.text), n.instead)
			}
			values[i] = value
		}
	}
}

// cover overwrites all needles in a text by asterisks. The length stays.
func (m *Mask) cover(text []byte) {
	var found [][]byte
	for _, n := range m.needles {
		for rest := text; ; {
			at := bytes.Index(rest, n.text)
			if at < 0 {
				break
			}
			found = append(found, rest[at:at+len(n.text)])
			rest = rest[at+1:]
		}
	}
	for _, part := range found { // after all are found: they may overlap
		for i := range part {
			part[i] = '*'
		}
	}
}

// sure returns how many bytes of a text, in which needles are covered, no later bytes can
// make part of one. It holds back the last word, and never more than it must.
func (m *Mask) sure(text []byte) int {
	n := max(0, len(text)-m.hold)
	return n + bytes.LastIndexAny(text[n:], m.breaks) + 1
}

// covers reports whether the body of an answer is searched: it is text, as far as its
// header says, and is not compressed.
func (m *Mask) covers(header http.Header) bool {
	if len(m.needles) == 0 {
		return false
	}
	for _, coding := range header["Content-Encoding"] {
		if !strings.EqualFold(coding, "identity") && coding != "" {
			return false
		}
	}
	return isText(header.Get("Content-Type"))
}

// isText reports whether a media type is of text, or unknown.
func isText(contentType string) bool {
	kind, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return true
	}
	class, sub, _ := strings.Cut(kind, "/")
	if class == "text" || class == "message" || class == "multipart" {
		return true
	}
	if class != "application" {
		return strings.HasSuffix(sub, "+xml")
	}
	for _, word := range []string{"json", "xml", "javascript", "yaml", "toml", "form-urlencoded", "graphql", "http", "jwt", "sql", "x-sh"} {
		if strings.Contains(sub, word) {
			return true
		}
	}
	return false
}
