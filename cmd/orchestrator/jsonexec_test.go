package main

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// chunk is a line that an execStream printed.
type chunk struct {
	Type string
	Data struct {
		Text  *string
		Bytes []byte
	}
}

func (c chunk) content() []byte {
	if c.Data.Text != nil {
		return []byte(*c.Data.Text)
	}
	return c.Data.Bytes
}

// throughStream writes content in pieces of n bytes and returns the lines.
func throughStream(t *testing.T, content []byte, n int) []chunk {
	t.Helper()
	var out bytes.Buffer
	stream := (&execLines{out: &out}).stream("stdout")
	for rest := content; len(rest) > 0; rest = rest[min(n, len(rest)):] {
		if _, err := stream.Write(rest[:min(n, len(rest))]); err != nil {
			t.Fatal(err)
		}
	}
	if err := stream.Flush(); err != nil {
		t.Fatal(err)
	}
	var chunks []chunk
	for lines := json.NewDecoder(&out); ; {
		var c chunk
		if err := lines.Decode(&c); err == io.EOF {
			return chunks
		} else if err != nil {
			t.Fatal(err)
		}
		chunks = append(chunks, c)
	}
}

func TestExecStreamKeepsRunesWhole(t *testing.T) {
	content := []byte("aé€𝄞 <&>\n" + "日本語" + "\x00")
	for n := 1; n <= len(content); n++ {
		var got []byte
		for _, c := range throughStream(t, content, n) {
			if c.Data.Text == nil {
				t.Errorf("in pieces of %d: %q is no text", n, c.Data.Bytes)
			}
			got = append(got, c.content()...)
		}
		if diff := cmp.Diff(content, got); diff != "" {
			t.Errorf("in pieces of %d (-want +got):\n%s", n, diff)
		}
	}
}

func TestExecStreamLosesNoBytes(t *testing.T) {
	for _, content := range []string{
		"\xff", "\xe2", "\xe2\x82", "a\xf0\x9d\x84", "\xe2\x28\xa1", "\x80\x80\x80\x80\x80", "é\xc3", "\xc3\xc3\xa9",
	} {
		for n := 1; n <= len(content); n++ {
			var got []byte
			for _, c := range throughStream(t, []byte(content), n) {
				got = append(got, c.content()...)
			}
			if string(got) != content {
				t.Errorf("%q in pieces of %d came as %q", content, n, got)
			}
		}
	}
}

func TestIncompleteTail(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "a": 0, "é": 0, "𝄞": 0,
		"é"[:1]: 1, "a€"[:3]: 2, "𝄞"[:3]: 3, "𝄞"[:1]: 1,
		"\xff": 0, "\x80": 0, "\xc3(": 0, "\xe2\x82\x82\x82": 0,
	} {
		if got := incompleteTail([]byte(text)); got != want {
			t.Errorf("incompleteTail(%q) = %d, want %d", text, got, want)
		}
	}
}

func FuzzExecStream(f *testing.F) {
	f.Add([]byte("é€𝄞\xff"), uint8(1))
	f.Fuzz(func(t *testing.T, content []byte, n uint8) {
		var got []byte
		for _, c := range throughStream(t, content, int(n)+1) {
			if utf8.Valid(content) && c.Data.Text == nil {
				t.Errorf("%q is valid UTF-8, but came as bytes", content)
			}
			got = append(got, c.content()...)
		}
		if !bytes.Equal(got, content) {
			t.Errorf("%q came as %q", content, got)
		}
	})
}
