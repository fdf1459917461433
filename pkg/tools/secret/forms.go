package secret

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// minLine is from how many bytes on a line of a secret with several lines is
// one by itself. Shorter lines are those that many such secrets have, like a
// bracket, or the key of a field.
const minLine = 16

// forms returns the texts by which a value is recognized.
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

// isArmor reports whether a line is the first or last one of every key of its
// kind (RFC 7468), so that programs have it in their text.
func isArmor(line string) bool {
	return strings.HasPrefix(line, "-----BEGIN ") || strings.HasPrefix(line, "-----END ")
}

// written returns a text as it is, and as programs write it within quotes.
func written(text string) []string {
	all := []string{text, inJSON(text, false), inJSON(text, true), inQuotes(strconv.Quote(text))}
	if valid := strings.ToValidUTF8(text, "\uFFFD"); len(valid) >= MinValue {
		all = append(all, valid)
	}
	return all
}

// inJSON returns a text as it stands in a string of JSON, with or without
// escapes for what HTML would take for its own.
func inJSON(text string, html bool) string {
	var escaped bytes.Buffer
	encoder := json.NewEncoder(&escaped)
	encoder.SetEscapeHTML(html)
	if encoder.Encode(text) != nil {
		return text // which never happens to a string
	}
	return inQuotes(strings.TrimSpace(escaped.String()))
}

func inQuotes(quoted string) string { return quoted[1 : len(quoted)-1] }
