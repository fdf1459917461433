package secret_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/podagent/podagent/pkg/tools/secret"
)

// encoders write a secret as programs do, between what is before and after it. core
// returns the part that nobody may see.
var encoders = []struct {
	around, core func(before, value, after string) string
}{
	{join, alone},
	{inJSON, func(_, v, _ string) string { return unquoted(inJSON("", v, "")) }},
	{func(b, v, a string) string { return strconv.QuoteToASCII(b + v + a) }, func(_, v, _ string) string { return unquoted(strconv.QuoteToASCII(v)) }},
	{func(b, v, a string) string { return b + url.QueryEscape(v) + a }, func(_, v, _ string) string { return url.QueryEscape(v) }},
	{func(b, v, a string) string { return b + url.PathEscape(v) + a }, func(_, v, _ string) string { return url.PathEscape(v) }},
	{func(b, v, a string) string { return b + html.EscapeString(v) + a }, func(_, v, _ string) string { return html.EscapeString(v) }},
	{func(b, v, a string) string { return fmt.Sprintf("%x", b+v+a) }, func(_, v, _ string) string { return fmt.Sprintf("%x", v) }},
	{func(b, v, a string) string { return fmt.Sprintf("% X", b+v+a) }, func(_, v, _ string) string { return fmt.Sprintf("% X", v) }},
	{func(b, v, a string) string { return base64.StdEncoding.EncodeToString([]byte(b + v + a)) }, coreOf(base64.RawStdEncoding)},
	{func(b, v, a string) string { return base64.RawURLEncoding.EncodeToString([]byte(b + v + a)) }, coreOf(base64.RawURLEncoding)},
	{func(b, v, a string) string { return b + "'" + strings.ReplaceAll(v, "'", `'\''`) + "'" + a }, func(_, v, _ string) string { return strings.ReplaceAll(v, "'", `'\''`) }},
}

func join(before, value, after string) string { return before + value + after }
func alone(_, value, _ string) string         { return value }
func unquoted(s string) string                { return s[1 : len(s)-1] }

func inJSON(before, value, after string) string {
	text, _ := json.Marshal(before + value + after)
	return string(text)
}

// coreOf returns the part of base64 that the bytes beside the value have no part in.
func coreOf(encoding *base64.Encoding) func(before, value, after string) string {
	return func(before, value, after string) string {
		code := encoding.EncodeToString([]byte(before + value + after))
		return code[(8*len(before)+5)/6 : 8*(len(before)+len(value))/6]
	}
}

func TestEncodedSecretsAreRedactedAtEachPlaceWhereATextCanBeCut(t *testing.T) {
	const value = "pa$$w\"ord'\u00e9\\\n\t<&%+/>"
	r := secret.NewRedactor(resolve(t, map[string]string{"A": value, "B": "short"}))
	for i, e := range encoders {
		for _, before := range []string{"", "x", "xy", "xyz:"} {
			text := "- " + e.around(before, value, " after") + " -"
			whole, core := r.Redact(text), e.core(before, value, " after")
			if !strings.Contains(whole, "[REDACTED:A]") || strings.Contains(whole, core) || !r.Finds([]byte(text)) {
				t.Errorf("encoder %d: %q is shown as %q", i, text, whole)
			}
			for at := range text {
				if got := stream(t, r, text[:at], text[at:]); got != whole {
					t.Errorf("encoder %d, cut at %d: %q, whole %q", i, at, got, whole)
				}
			}
		}
	}
}

// In hex, MinPart bytes have twice as many characters.
func TestCutsThroughEncodedSecretsLeaveNoPart(t *testing.T) {
	const value, part = "QzVkY8rTn2Wm4xLp9s+/é", 2 * secret.MinPart
	r := secret.NewRedactor(resolve(t, map[string]string{"A": value}))
	for i, e := range encoders {
		text, core := e.around("user:", value, "@host"), e.core("user:", value, "@host")
		for at := range text {
			head := r.RedactHead(text[:at])
			var tail bytes.Buffer
			w := r.Writer(&tail)
			w.FromMiddle()
			w.Write([]byte(text[at:]))
			w.Close()
			for from := range len(core) - part + 1 {
				if part := core[from : from+part]; strings.Contains(head, part) || strings.Contains(tail.String(), part) {
					t.Fatalf("encoder %d, cut at %d: %q, %q show %q", i, at, head, &tail, part)
				}
			}
		}
	}
}

func TestBase64IsRedactedWhereverItsLinesBreak(t *testing.T) {
	value := strings.Repeat("QzVkY8rTn2Wm4xLp9s", 9)
	r := secret.NewRedactor(resolve(t, map[string]string{"A": value}))
	for _, width := range []int{60, 64, 76} {
		for before := range width {
			code := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("-", before) + value + "-after-"))
			var lines strings.Builder
			for line := range slices.Chunk([]byte(code), width) {
				lines.Write(append(line, "\r\n"[before%2:]...))
			}
			got := r.Redact(lines.String())
			rest := len(code) - 8*len(value)/6
			if strings.Count(got, "[REDACTED:A]") != 1 || len(got) > rest+len("[REDACTED:A]")+rest/width*2+6 {
				t.Errorf("%d bytes before, lines of %d: %s", before, width, got)
			}
		}
	}
}

func TestDumpsAreRedactedWhereverTheirLinesBreakAndATextIsCut(t *testing.T) {
	const value = "ghp_0123456789abcdefghi\u00e9j\n"
	r := secret.NewRedactor(resolve(t, map[string]string{"A": value}))
	for before := range 17 {
		text := hex.Dump([]byte(strings.Repeat("-", before) + value + "after"))
		whole := r.Redact(text)
		rest := strings.ReplaceAll(whole, "[REDACTED:A]", "")
		if whole == rest || regexp.MustCompile(`67|68 70|ghp_|012|abc|j`).MatchString(rest) {
			t.Errorf("%d bytes before:\n%s", before, whole)
		}
		for at := range text {
			if got := stream(t, r, text[:at], text[at:]); got != whole {
				t.Errorf("%d bytes before, cut at %d: %q, whole %q", before, at, got, whole)
			}
		}
	}
}

// They occur in other texts by chance.
func TestEncodingsOfAShortSecretAreNotRedacted(t *testing.T) {
	r := secret.NewRedactor(resolve(t, map[string]string{"A": "pass", "B": "1234567"}))
	for _, value := range []string{"pass", "1234567"} {
		for _, text := range []string{fmt.Sprintf("%x", value), base64.StdEncoding.EncodeToString([]byte(value))} {
			if got := r.Redact(text); got != text {
				t.Errorf("%q is shown as %q", text, got)
			}
		}
	}
}

// FuzzRedactor checks that it does not matter how a text is cut, and that no secret is
// left in any of its forms.
func FuzzRedactor(f *testing.F) {
	for i, c := range redactions {
		f.Add(c.text, c.secrets["A"], c.secrets["B"], uint8(len(c.secrets)), uint8(3), uint8(i))
	}
	f.Add("%41\\u00", "pa$$w\"ord'\u00e9", "% &<>%25''", uint8(4), uint8(9), uint8(4))
	f.Add("after", "ghp_0123456789abcdefghij", "befor", uint8(40), uint8(90), uint8(len(encoders)))
	f.Add("aGVs bG8=", "hunter2222", `\\\\\\\\\\\\`, uint8(4), uint8(9), uint8(7))
	f.Fuzz(func(t *testing.T, text, a, b string, one, two, encoder uint8) {
		const long = 500 // many times the same character takes quadratic time
		values := map[string]string{}
		for name, value := range map[string]string{"A": a, "B": b} {
			if len(value) >= secret.MinValue && len(value) < long && !strings.Contains(value, "\x00") {
				values[name] = value
			}
		}
		r := secret.NewRedactor(resolve(t, values))
		left := slices.Collect(maps.Values(values))
		if len(a) >= 8 && values["A"] != "" && utf8.ValidString(a) && len(b)+len(text) < long {
			if n := int(encoder) % (len(encoders) + 1); n < len(encoders) {
				left = append(left, encoders[n].core(b, a, text))
				text = encoders[n].around(b, a, text)
			} else {
				text = hex.Dump([]byte(b + a + text))
			}
		}
		whole := r.Redact(text)
		i := min(int(one), len(text))
		j := min(i+int(two), len(text))
		if got := stream(t, r, text[:i], text[i:j], text[j:]); got != whole {
			t.Errorf("cut at %d and %d: %q, whole %q", i, j, got, whole)
		}
		rest := strings.NewReplacer("[REDACTED:A]", "\x00", "[REDACTED:B]", "\x00").Replace(whole)
		for part := range strings.SplitSeq(rest, "\x00") {
			for _, form := range left {
				if strings.Contains(part, form) {
					t.Errorf("%q is left in %q", form, whole)
				}
			}
		}
	})
}
