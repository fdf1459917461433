// Package render has the output that both programs share: the results of searches,
// in ripgrep's form or as JSON lines, and names and text of a sandbox in a form
// that cannot control the terminal.
package render

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"unicode/utf8"
)

// Text is text that need not be UTF-8. As in ripgrep's JSON, it is {"text": "…"},
// or {"bytes": base64} if it is not UTF-8.
type Text []byte

// MarshalJSON implements json.Marshaler.
func (t Text) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	var err error
	if utf8.Valid(t) {
		err = JSON(&out, struct {
			Text string `json:"text"`
		}{string(t)})
	} else {
		err = JSON(&out, struct {
			Bytes string `json:"bytes"`
		}{base64.StdEncoding.EncodeToString(t)})
	}
	return out.Bytes(), err
}

// JSON writes v as one line. It escapes all characters that could control a terminal or
// reorder the line, which encoding/json does up to U+001F.
func JSON(w io.Writer, v any) error {
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(escapeJSON(line.Bytes()))
	return err
}

// escapeJSON escapes in a line of JSON what [ProgramText] escapes.
func escapeJSON(line []byte) []byte {
	n := harmless(line)
	if n == len(line) {
		return line
	}
	escaped := append(make([]byte, 0, len(line)+len(line)/4), line[:n]...)
	for line = line[n:]; len(line) > 0; line = line[n:] {
		r, size := utf8.DecodeRune(line)
		escaped = fmt.Appendf(escaped, `\u%04x`, r)
		line = line[size:]
		n = harmless(line)
		escaped = append(escaped, line[:n]...)
	}
	return escaped
}
