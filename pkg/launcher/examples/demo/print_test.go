package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestUniqueText(t *testing.T) {
	for _, tt := range []struct {
		content string
		line    int64
		want    string
	}{
		{"one\ntwo\nthree\n", 2, "two"},
		{"a\n}\nb\n}\nc\n", 2, "b"},
		{"first\nx\nx\n", 2, "first"},
		{"x\nx\n", 1, "x\nx\n"},
		{"\n  \nonly", 1, "only"},
		{"one\n", 9, "one"},
	} {
		got := uniqueText([]byte(tt.content), tt.line)
		if string(got) != tt.want {
			t.Errorf("uniqueText(%q, %d) = %q, want %q", tt.content, tt.line, got, tt.want)
		}
		if bytes.Count([]byte(tt.content), got) != 1 {
			t.Errorf("uniqueText(%q, %d) = %q occurs more than once", tt.content, tt.line, got)
		}
	}
}

func TestPrinterKeepsToTheTerminal(t *testing.T) {
	var out strings.Builder
	p := &printer{out: &out}
	err := p.step("Title", []string{"cmd", strings.Repeat("w", 60), "-- another"}, func() error {
		for i := range 2 * shownLines {
			p.Write([]byte("\x1b[2Jline "))
			p.Write([]byte{byte('a' + i), '\t', '|', '\n'})
		}
		_, err := p.Write([]byte("unfinished"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(out.String(), "\n")
	want := []string{
		"", "1. Title",
		"   $ cmd " + strings.Repeat("w", 60) + ` \`,
		"       -- another",
		"   [2Jline a    |",
	}
	if diff := cmp.Diff(want, got[:len(want)]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !strings.Contains(out.String(), "\n   … 11 more lines\n   -- ") {
		t.Errorf("does not say what was left out:\n%s", out.String())
	}
}

func TestTrimLine(t *testing.T) {
	for line, want := range map[string]string{
		"short": "short", "0123456789": "0123456789", "0123456789a": "012345678…", "日本語日本語日本語日本語": "日本語日本語日本語…", "a\r\x07b": "ab",
	} {
		if got := trimLine(line, 10); got != want {
			t.Errorf("trimLine(%q) = %q, want %q", line, got, want)
		}
	}
}
