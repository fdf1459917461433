package secret_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/tools/secret"
)

var redactions = []struct {
	name    string
	secrets map[string]string
	text    string
	want    string
}{
	{"none", map[string]string{"A": "secret"}, "nothing here", "nothing here"},
	{"one", map[string]string{"A": "secret"}, "a secret b", "a [REDACTED:A] b"},
	{"all of it", map[string]string{"A": "secret"}, "secret", "[REDACTED:A]"},
	{"twice", map[string]string{"A": "secret"}, "secretsecret", "[REDACTED:A][REDACTED:A]"},
	{"the longest first", map[string]string{"A": "pass", "B": "password", "C": "password123"}, "pass password password123", "[REDACTED:A] [REDACTED:B] [REDACTED:C]"},
	{"one within another", map[string]string{"A": "ssword1", "B": "password123"}, "password123 ssword1", "[REDACTED:B] [REDACTED:A]"},
	{"overlapping", map[string]string{"A": "abcdef", "B": "defghi"}, "xabcdefghiy", "x[REDACTED:A][REDACTED:B]y"},
	{"overlapping the longer later", map[string]string{"A": "abcd", "B": "cdefghijk"}, "abcdefghijk", "[REDACTED:A][REDACTED:B]"},
	{"overlapping itself", map[string]string{"A": "abab"}, "xabababy", "x[REDACTED:A]y"},
	{"a beginning alone", map[string]string{"A": "abcdef"}, "abcde", "abcde"},
	{"a beginning, then all", map[string]string{"A": "aaab"}, "aaaaab", "aa[REDACTED:A]"},
	{"one value of two names", map[string]string{"A": "same", "B": "same"}, "same", "[REDACTED:A]"},
	{"several lines", map[string]string{"A": "one\ntwo"}, "one\ntwo\none", "[REDACTED:A]\none"},
	{"a long line of several", map[string]string{"A": "BEGIN\n0123456789abcdef\nEND"}, "3: 0123456789abcdef", "3: [REDACTED:A]"},
	{"as JSON", map[string]string{"A": "a\"b\n<c"}, `{"x": "a\"b\n<c", "y": "a\"b\n\u003cc"}`, `{"x": "[REDACTED:A]", "y": "[REDACTED:A]"}`},
	{"bytes that are no text", map[string]string{"A": "\xff\xfe\xfd\xfc"}, "x\xff\xfe\xfd\xfcy", "x[REDACTED:A]y"},
}

func TestRedact(t *testing.T) {
	for _, c := range redactions {
		t.Run(c.name, func(t *testing.T) {
			r := secret.NewRedactor(resolve(t, c.secrets))
			if got := r.Redact(c.text); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	if got := secret.NewRedactor(nil).Redact("text"); got != "text" {
		t.Errorf("no secrets: %q", got)
	}
}

func TestWriterRedactsAtEachPlaceWhereATextCanBeCut(t *testing.T) {
	for _, c := range redactions {
		r := secret.NewRedactor(resolve(t, c.secrets))
		for one := range len(c.text) + 1 {
			for two := one; two <= len(c.text); two++ {
				if got := stream(t, r, c.text[:one], c.text[one:two], c.text[two:]); got != c.want {
					t.Errorf("%s, cut at %d and %d: %q, want %q", c.name, one, two, got, c.want)
				}
			}
		}
	}
}

// stream writes pieces, and checks that no more is held back than may be.
func stream(t *testing.T, r *secret.Redactor, pieces ...string) string {
	t.Helper()
	var out bytes.Buffer
	w := r.Writer(&out)
	for _, p := range pieces {
		if n, err := w.Write([]byte(p)); n != len(p) || err != nil {
			t.Fatal(n, err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestWriterHoldsBackOnlyWhatMayBeASecret(t *testing.T) {
	r := secret.NewRedactor(resolve(t, map[string]string{"A": "secret", "B": "a-much-longer-secret"}))
	var out bytes.Buffer
	w := r.Writer(&out)
	for _, step := range []struct{ write, want string }{
		{"plain text", "plain text"},
		{" and a-much-longer-", "plain text and "},
		{"x", "plain text and a-much-longer-x"},
		{"secre", "plain text and a-much-longer-x"},
		{"t", "plain text and a-much-longer-x[REDACTED:A]"},
	} {
		w.Write([]byte(step.write))
		if got := out.String(); got != step.want {
			t.Errorf("after %q: %q, want %q", step.write, got, step.want)
		}
		if w.Held() >= len("a-much-longer-secret") {
			t.Errorf("%d bytes are held", w.Held())
		}
	}
}

func TestErrorsAreRedacted(t *testing.T) {
	r := secret.NewRedactor(resolve(t, map[string]string{"A": "hunter22"}))
	err := r.Error(fmt.Errorf("opening: %w", &fs.PathError{Op: "open", Path: "/hunter22", Err: fs.ErrNotExist}))
	if err.Error() != "opening: open /[REDACTED:A]: file does not exist" || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	var of *fs.PathError
	if errors.As(err, &of) {
		t.Errorf("errors.As finds %v", of)
	}
	if plain := errors.New("plain"); r.Error(plain) != plain || r.Error(nil) != nil {
		t.Error("an error without a secret is another one")
	}
}

// FuzzRedactor checks that it does not matter how a text is cut, and that of no
// secret all is left.
func FuzzRedactor(f *testing.F) {
	for _, c := range redactions {
		secrets, _ := json.Marshal(c.secrets)
		f.Add(c.text, c.secrets["A"], c.secrets["B"], uint8(len(secrets)), uint8(3))
	}
	f.Fuzz(func(t *testing.T, text, a, b string, one, two uint8) {
		values := map[string]string{}
		for name, value := range map[string]string{"A": a, "B": b} {
			if len(value) >= secret.MinValue && len(value) < secret.MaxValue && !strings.Contains(value, "\x00") {
				values[name] = value
			}
		}
		r := secret.NewRedactor(resolve(t, values))
		whole := r.Redact(text)
		i := min(int(one), len(text))
		j := min(i+int(two), len(text))
		if got := stream(t, r, text[:i], text[i:j], text[j:]); got != whole {
			t.Errorf("cut at %d and %d: %q, whole %q", i, j, got, whole)
		}
		rest := strings.NewReplacer("[REDACTED:A]", "\x00", "[REDACTED:B]", "\x00").Replace(whole)
		for part := range strings.SplitSeq(rest, "\x00") {
			for name, value := range values {
				if strings.Contains(part, value) {
					t.Errorf("%s is left in %q", name, whole)
				}
			}
		}
	})
}

func BenchmarkRedact(b *testing.B) {
	values := map[string]string{}
	for i := range 20 {
		values[fmt.Sprintf("S%d", i)] = fmt.Sprintf("%c-token-%d-0123456789abcdef", 'a'+i, i)
	}
	r := secret.NewRedactor(resolve(b, values))
	text := strings.Repeat("a line of output as a build prints it, with some words\n", 1000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		r.Redact(text)
	}
}
