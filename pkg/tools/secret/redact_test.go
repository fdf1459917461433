package secret_test

import (
	"bytes"
	"encoding/base64"
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
	{"metacharacters of expressions", map[string]string{"A": `a.*[b]$^\1(c`}, `x a.*[b]$^\1(c y`, `x [REDACTED:A] y`},
	{"as Go quotes it", map[string]string{"A": "a\x01b\u00a0\"c"}, `open "a\x01b\u00a0\"c": no`, `open "[REDACTED:A]": no`},
	{"without the white space around it", map[string]string{"A": " hunter2\n"}, "x hunter2 y", "x [REDACTED:A] y"},
	{"as a shell prints it without quotes", map[string]string{"A": "one  two\tthree\nfour"}, "one two three four", "[REDACTED:A]"},
	{"a line of several as JSON", map[string]string{"A": "BEGIN\n0123456789\"abcdef\nEND"}, `"0123456789\"abcdef"`, `"[REDACTED:A]"`},
	{"the first line of every key", map[string]string{"A": "-----BEGIN PRIVATE KEY-----\n0123456789abcdef\n-----END PRIVATE KEY-----"}, "-----BEGIN PRIVATE KEY-----\n0123456789abcdeX", "-----BEGIN PRIVATE KEY-----\n0123456789abcdeX"},
	{"bytes that are no text, made text", map[string]string{"A": "hunter\xff2"}, "x hunter\uFFFD2 y", "x [REDACTED:A] y"},
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

func TestRedactHeadHidesWhatACutLeft(t *testing.T) {
	r := secret.NewRedactor(resolve(t, map[string]string{"A": "password", "B": "password123", "C": "rd123xyz"}))
	for text, want := range map[string]string{
		"":                     "",
		"plain":                "plain",
		"x pas":                "x pas",
		"x pass":               "x [REDACTED:B]",
		"x password12":         "x [REDACTED:B]",
		"x password123":        "x [REDACTED:B][REDACTED:C]",
		"x password123x":       "x [REDACTED:B][REDACTED:C]",
		"x password1 ":         "x [REDACTED:A]1 ",
		"password password12 ": "[REDACTED:A] [REDACTED:A]12 ",
	} {
		if got := r.RedactHead(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	if got := secret.NewRedactor().RedactHead("text"); got != "text" {
		t.Errorf("no secrets: %q", got)
	}
}

func TestWriterFromTheMiddleHidesWhatACutLeft(t *testing.T) {
	r := secret.NewRedactor(resolve(t, map[string]string{"A": "password", "B": "a-much-longer-password"}))
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"plain", "plain"},
		{"ord", "ord"},
		{"word", "[REDACTED:B]"},
		{"word and more", "[REDACTED:B] and more"},
		{"ger-password!", "[REDACTED:B]!"},
		{"longer-pass", "[REDACTED:B]"}, // neither its beginning nor its end
		{"longer-passed", "longer-passed"},
		{"password", "[REDACTED:B]"},
		{"wordpassword", "[REDACTED:B][REDACTED:A]"},
		{"64 here", "64 here"}, // its last byte in hex, and no dump
		{"4 here", "4 here"},
		{"77 6f 72 64  here\n", "[REDACTED:B]\n"},
	} {
		for cut := range len(c.text) + 1 {
			var out bytes.Buffer
			w := r.Writer(&out)
			w.FromMiddle()
			w.Write([]byte(c.text[:cut]))
			w.Write([]byte(c.text[cut:]))
			w.Close()
			if got := out.String(); got != c.want {
				t.Errorf("%q, cut at %d: got %q, want %q", c.text, cut, got, c.want)
			}
		}
	}
}

// Wherever a text is cut, neither side shows MinPart bytes of a secret that the
// cut goes through.
func TestCutsThroughSecretsLeaveNoPart(t *testing.T) {
	const value = "ghp_0123456789abcdef"
	r := secret.NewRedactor(resolve(t, map[string]string{"A": value, "B": "9abcdefg-and-more"}))
	text := "before " + value + "g-and-more after"
	for at := range len(text) {
		head := r.RedactHead(text[:at])
		var tail bytes.Buffer
		w := r.Writer(&tail)
		w.FromMiddle()
		w.Write([]byte(text[at:]))
		w.Close()
		for i := range len(value) - secret.MinPart + 1 {
			if part := value[i : i+secret.MinPart]; strings.Contains(head, part) || strings.Contains(tail.String(), part) {
				t.Errorf("cut at %d: %q, %q show %q", at, head, &tail, part)
			}
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
	if shown := fmt.Sprintf("%+v %#v", r.Error(byValue("hunter22")), r.Error(byValue("hunter22"))); strings.Contains(shown, "hunter22") {
		t.Errorf("it is shown: %s", shown)
	}
	if plain := errors.New("plain"); r.Error(plain) != plain || r.Error(nil) != nil {
		t.Error("an error without a secret is another one")
	}
}

// byValue is an error that package fmt shows wherever it finds it.
type byValue string

func (e byValue) Error() string { return string(e) }

func BenchmarkRedact(b *testing.B) {
	random := make([]byte, 32<<10)
	for i := range random {
		random[i] = byte(i * i * 2654435761 >> 16)
	}
	for _, n := range []int{1, 10, 100} {
		values := map[string]string{}
		for i := range n {
			values[fmt.Sprintf("S%d", i)] = fmt.Sprintf("%c-token-%d-$0123456789abcdef", 'a'+i%26, i)
		}
		set := resolve(b, values)
		r := secret.NewRedactor(set)
		for name, text := range map[string]string{
			"build":   strings.Repeat("a line of output as a build prints it, with some words\n", 1000),
			"base64":  base64.StdEncoding.EncodeToString(random),
			"escapes": strings.Repeat(`d\u00e9j\u00e0 vu \u0061 %20 &#97; `, 1000),
		} {
			b.Run(fmt.Sprintf("%s/secrets=%d", name, n), func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				for b.Loop() {
					r.Redact(text)
				}
			})
		}
		b.Run(fmt.Sprintf("NewRedactor/secrets=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				secret.NewRedactor(set)
			}
		})
	}
}
