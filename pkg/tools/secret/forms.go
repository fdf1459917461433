package secret

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// minLine is the least length in bytes at which a line of a multi-line secret is
// redacted by itself. Many secrets share shorter lines, such as a bracket or the
// name of a field.
const minLine = 16

// forms returns all texts under which a value may appear.
func forms(value string) []string {
	all := written(value)
	for _, text := range []string{strings.TrimSpace(value), strings.Join(strings.Fields(value), " ")} {
		if len(text) >= MinValue {
			all = append(all, written(text)...)
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

// written returns a text unchanged, and escaped as programs write it in quotes.
func written(text string) []string {
	all := []string{text, inJSON(text, false), inJSON(text, true), inQuotes(strconv.Quote(text))}
	if valid := strings.ToValidUTF8(text, "\uFFFD"); len(valid) >= MinValue {
		all = append(all, valid)
	}
	return all
}

// inJSON returns a text escaped as in a JSON string, with or without escapes for
// the special characters of HTML.
func inJSON(text string, html bool) string {
	var escaped bytes.Buffer
	encoder := json.NewEncoder(&escaped)
	encoder.SetEscapeHTML(html)
	if encoder.Encode(text) != nil {
		return text // a string can always be encoded
	}
	return inQuotes(strings.TrimSpace(escaped.String()))
}

func inQuotes(quoted string) string { return quoted[1 : len(quoted)-1] }
