package console

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestDetachKeysAreWhatATerminalSends(t *testing.T) {
	for text, want := range map[string]string{
		"ctrl-p,ctrl-q": "\x10\x11", "": "", "a": "a", "ctrl-a,d": "\x01d", "ctrl-@": "\x00",
		`ctrl-[,ctrl-\,ctrl-],ctrl-^,ctrl-_`: "\x1b\x1c\x1d\x1e\x1f", "~,.": "~.", "é": "é",
	} {
		var k DetachKeys
		if err := k.Set(text); err != nil || string(k.bytes) != want {
			t.Errorf("%q is %q, %v, want %q", text, k.bytes, err, want)
		}
	}
	for _, text := range []string{",", "ab", "ctrl-", "ctrl-P", "ctrl-1", "ctrl-é", "a,", "alt-a"} {
		k := DetachKeys{"before", []byte("b")}
		if err := k.Set(text); err == nil || k.text != "before" {
			t.Errorf("%q was taken as %q", text, k.bytes)
		}
	}
}

// typeKeys types pieces, each as a read of its own. It returns the bytes that were
// passed on, and whether the detach keys were recognized.
func typeKeys(t *testing.T, keys string, pieces ...string) (passed string, left bool) {
	t.Helper()
	var readers []io.Reader
	for _, p := range pieces {
		readers = append(readers, strings.NewReader(p))
	}
	r := &keyReader{from: io.MultiReader(readers...), keys: []byte(keys), leave: func() { left = true }}
	got, err := io.ReadAll(iotest.OneByteReader(r))
	if err != nil {
		t.Fatal(err)
	}
	return string(got), left
}

func TestDetachKeysAreNoticedAndAllElseIsPassedOn(t *testing.T) {
	const p, q = "\x10", "\x11"
	for _, tt := range []struct {
		keys   string
		pieces []string
		passed string
		left   bool
	}{
		{p + q, []string{"ls\n", p + q, "after"}, "ls\n", true},
		{p + q, []string{"ls\n" + p, q + "after"}, "ls\n", true},
		{p + q, []string{p, "x", p, p, q}, p + "x" + p, true},
		{p + q, []string{p + "x" + q}, p + "x" + q, false},
		{p + q, []string{"ends with " + p}, "ends with " + p, false},
		{p + q, []string{q + p}, q + p, false},
		{"aab", []string{"aaab"}, "a", true},
		{"aab", []string{"a", "a", "a", "a", "b"}, "aa", true},
		{"abac", []string{"ababac"}, "ab", true},
		{"x", []string{"12x34"}, "12", true},
	} {
		passed, left := typeKeys(t, tt.keys, tt.pieces...)
		if passed != tt.passed || left != tt.left {
			t.Errorf("of %q with the keys %q: %q, %v, want %q, %v", tt.pieces, tt.keys, passed, left, tt.passed, tt.left)
		}
	}
}

func TestDetachKeysDoNotHideWhyInputFailed(t *testing.T) {
	failure := errors.New("no more")
	from := io.MultiReader(strings.NewReader("a\x10"), iotest.ErrReader(failure))
	r := &keyReader{from: from, keys: []byte("\x10\x11"), leave: func() { t.Error("left") }}
	if got, err := io.ReadAll(r); string(got) != "a\x10" || err != failure {
		t.Errorf("%q, %v", got, err)
	}
}

// FuzzDetachKeys checks that everything typed before the keys is passed on
// unchanged, wherever it is split.
func FuzzDetachKeys(f *testing.F) {
	f.Add([]byte("aaab"), []byte("aab"), uint8(1))
	f.Fuzz(func(t *testing.T, typed, keys []byte, size uint8) {
		if len(keys) == 0 {
			return
		}
		want, _, found := bytes.Cut(typed, keys)
		left := false
		r := &keyReader{from: bytes.NewReader(typed), keys: keys, leave: func() { left = true }}
		var got bytes.Buffer
		if _, err := io.CopyBuffer(&got, struct{ io.Reader }{r}, make([]byte, int(size)+1)); err != nil {
			t.Fatal(err)
		}
		if left != found || !bytes.Equal(got.Bytes(), want) {
			t.Errorf("of %q with the keys %q: %q, %v", typed, keys, got.Bytes(), left)
		}
	})
}
