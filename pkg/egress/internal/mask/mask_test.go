package mask

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const theValue = "hunter2/&?éÿ+correct-horse"

func maskOf(value string) *Mask { return New(Needles(value, "the-placeholder")) }

// What code sees before the rest of a text comes must not tell how a secret begins.
func TestHeldBackBytesTellNothing(t *testing.T) {
	m := maskOf(theValue)
	for _, before := range []string{"", "words and words ", strings.Repeat("x", 500), "a line\n"} {
		for i := range len(theValue) {
			right, wrong := before+theValue[:i], before+strings.Repeat("#", i)
			if m.sure([]byte(right)) != m.sure([]byte(wrong)) {
				t.Fatalf("%d bytes of the secret are told from others", i)
			}
		}
	}
}

// However long a host, or a client that reads slowly, pauses in a secret: no part of it passes.
func TestNoPauseSplitsASecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := maskOf(theValue)
		w := httptest.NewRecorder()
		a := &Answer{ResponseWriter: w, Mask: m}
		a.WriteHeader(200)
		for i := range theValue {
			fmt.Fprint(a, "text "+theValue[:i])
			time.Sleep(time.Hour)
			synctest.Wait()
			if got := w.Body.String(); got != "text " {
				t.Fatalf("after %d bytes %q passed", i, got)
			}
			fmt.Fprint(a, theValue[i:]+"\n")
			if got := w.Body.String(); got != "text "+strings.Repeat("*", len(theValue))+"\n" {
				t.Fatalf("%q", got)
			}
			w.Body.Reset()
		}
		fmt.Fprint(a, "the end")
		if a.Close(true); w.Body.String() != "the end" {
			t.Errorf("at the end %q", w.Body)
		}
	})
}

// Secrets with blanks or brackets are not split by those.
func TestWhatSecretsHaveBreaksNothing(t *testing.T) {
	for _, value := range []string{"Bearer two words", "{\"key\": \"json-value\"}", "with\ttabs\tin it", "user:password"} {
		m := maskOf(value)
		for i := range value {
			if n := m.sure([]byte("\n" + value[:i])); n != 1 {
				t.Errorf("of %q %d bytes pass", value[:i], n-1)
			}
		}
	}
}

// What is not text, or is compressed, passes as it is.
func TestOtherBodiesPassAsTheyAre(t *testing.T) {
	for kind, want := range map[string]bool{
		"": true, "text/html; charset=x": true, "application/vnd.api+json": true, "image/svg+xml": true, "text/event-stream": true,
		"application/x-ndjson": true, "multipart/mixed": true, "message/http": true, "application/x-www-form-urlencoded": true, "a;b;c": true,
		"application/octet-stream": false, "application/grpc": false, "application/grpc+proto": false, "image/png": false,
		"application/x-git-upload-pack-result": false, "application/zip": false, "video/mp4": false,
	} {
		if got := maskOf(theValue).covers(http.Header{"Content-Type": {kind}}); got != want {
			t.Errorf("%q: %v", kind, got)
		}
	}
	if maskOf(theValue).covers(http.Header{"Content-Type": {"text/plain"}, "Content-Encoding": {"gzip"}}) {
		t.Error("compressed text is searched")
	}
	if New().covers(http.Header{}) {
		t.Error("a text is searched for nothing")
	}
}

// FuzzMask splits a text with secrets into pieces of all sizes: none comes through, the
// rest does, and no length changes.
func FuzzMask(f *testing.F) {
	f.Add([]byte("a@b@@\n@"), byte(3), byte(0))
	f.Add([]byte("@@@@@@@@@@@"), byte(1), byte(5))
	f.Add(bytes.Repeat([]byte("long text "), 100), byte(255), byte(9))
	all := Spellings(theValue)
	m := maskOf(theValue)
	f.Fuzz(func(t *testing.T, text []byte, size, which byte) {
		spelling := []byte(all[int(which)%len(all)])
		text = bytes.ReplaceAll(text, []byte("@"), spelling)
		if len(text) > 2<<10 {
			return // of single bytes, it would take seconds
		}
		w := httptest.NewRecorder()
		a := &Answer{ResponseWriter: w, Mask: m}
		a.WriteHeader(200)
		for rest := text; len(rest) > 0; {
			n := min(int(size)+1, len(rest))
			if _, err := a.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			if len(a.held) > m.hold {
				t.Fatalf("%d bytes are held back", len(a.held))
			}
			rest = rest[n:]
		}
		a.Close(true)
		whole := bytes.Clone(text)
		m.cover(whole)
		got := w.Body.Bytes()
		if !bytes.Equal(got, whole) {
			t.Fatalf("in pieces %q, as a whole %q", got, whole)
		}
		for i := range got {
			if got[i] != text[i] && got[i] != '*' {
				t.Fatalf("%q became %q", text, got)
			}
		}
		for _, s := range all {
			if bytes.Contains(got, []byte(s)) {
				t.Fatalf("%q comes through in %q", s, got)
			}
		}
	})
}
