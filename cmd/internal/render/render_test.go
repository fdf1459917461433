package render

import (
	"bytes"
	"encoding/json"
	"testing"
)

func TestJSONControlsNoTerminal(t *testing.T) {
	for text, want := range map[string]string{
		"plain":                       `"plain"`,
		"<日本> é":                      `"<日本> é"`,
		"\x1b[2J\u009b2J\x7f\u202eab": `"\u001b[2J\u009b2J\u007f\u202eab"`,
		"\u0085\u0090\u061c":          `"\u0085\u0090\u061c"`,
	} {
		var line bytes.Buffer
		if err := JSON(&line, text); err != nil || line.String() != want+"\n" {
			t.Errorf("%q is %s, %v, want %s", text, &line, err, want)
		}
		var got string
		if err := json.Unmarshal(line.Bytes(), &got); err != nil || got != text {
			t.Errorf("%q is read as %q, %v", text, got, err)
		}
	}
}
