package keys_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/launcher/internal/keys"
	"github.com/podagent/podagent/pkg/podapi"
)

// fixed is an identity whose seed is known: 32 bytes of value 7.
func fixed(t testing.TB) podapi.Identity {
	t.Helper()
	id, err := podapi.ParseIdentity([]byte("-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIAcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcH\n-----END PRIVATE KEY-----\n"))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func setOf(t testing.TB, id podapi.Identity) keys.Set {
	t.Helper()
	s, err := keys.Of(id)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func another(t testing.TB) podapi.Identity {
	t.Helper()
	id, err := podapi.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

var about = keys.Subject{Kind: "PersistentVolumeClaim", Namespace: "n", Name: "sandbox-a", UID: "u-1", ID: "a"}

// Claims, and what clients of SSH have pinned, outlive the program that made them, so keys stay as
// they are. The values were computed by RFC 5869 from HMAC alone, in another language.
func TestKeysStayTheSame(t *testing.T) {
	for purpose, want := range map[keys.Purpose]string{
		keys.Signing: "2b7d4db6ff2c045c00aecf2310bf440640371008deea97fad41a2be55d944b33",
		keys.Sealing: "6bb2fd394461bb01172a6c7e6a1a71fdefc7033e3a3de143f898d53e93abc2a1",
		keys.Host:    "fab9a4bad1556b9fe4b97add0a4386c57aa918e2b25f56c9b9ccb8b824214107",

		keys.GatewayHost: "04bd65c32b62178c01a16dee3eefceefd9d0cbacd5421ccc09063e05276463e5",
	} {
		got, err := keys.Derive(fixed(t), purpose)
		if err != nil || hex.EncodeToString(got) != want {
			t.Errorf("%s: %x, %v, want %s", purpose, got, err, want)
		}
	}
}

func TestNoteIsVerifiedByItsIdentityOnly(t *testing.T) {
	id := another(t)
	written := setOf(t, id).Sign(about, 5, "the text\nof two lines")
	n, err := setOf(t, id).Verify(about, written)
	if err != nil || n.Text != "the text\nof two lines" || n.Generation != 5 || n.Signer != id.AuthorizedKey().Fingerprint() {
		t.Errorf("%+v, %v", n, err)
	}
	if _, err := setOf(t, another(t)).Verify(about, written); !errors.Is(err, keys.ErrForeign) {
		t.Errorf("another identity: %v", err)
	}
	claimed := strings.Replace(setOf(t, another(t)).Sign(about, 5, "x"), " 5 ", " 6 ", 1)
	if _, err := setOf(t, id).Verify(about, claimed); !errors.Is(err, keys.ErrForeign) {
		t.Errorf("a note of another identity: %v", err)
	}
}

func TestNoteIsOnlyAboutItsSubject(t *testing.T) {
	s := setOf(t, another(t))
	written, sealed := s.Sign(about, 1, "text"), s.Seal(about, []byte("secret"))
	for name, change := range map[string]func(*keys.Subject){
		"kind":      func(a *keys.Subject) { a.Kind = "Pod" },
		"namespace": func(a *keys.Subject) { a.Namespace = "m" },
		"name":      func(a *keys.Subject) { a.Name = "sandbox-b" },
		"UID":       func(a *keys.Subject) { a.UID = "u-2" },
		"no UID":    func(a *keys.Subject) { a.UID = "" },
		"id":        func(a *keys.Subject) { a.ID = "b" },
		"shifted":   func(a *keys.Subject) { a.UID, a.ID = "u-", "1a" },
	} {
		other := about
		change(&other)
		if _, err := s.Verify(other, written); !errors.Is(err, keys.ErrSignature) {
			t.Errorf("%s: verified: %v", name, err)
		}
		if text, err := s.Open(other, sealed); err == nil {
			t.Errorf("%s: opened: %q", name, text)
		}
	}
}

// Whichever bit is changed, a note is refused, and what is sealed stays closed.
func TestEveryBitCounts(t *testing.T) {
	s := setOf(t, another(t))
	written, sealed := []byte(s.Sign(about, 1234567890, `{"pod":{"metadata":{"name":"a"}}}`)), s.Seal(about, []byte("secret"))
	flipped := func(all []byte, refused func([]byte) bool) {
		for i := range len(all) * 8 {
			changed := bytes.Clone(all)
			changed[i/8] ^= 1 << (i % 8)
			if !refused(changed) {
				t.Errorf("bit %d of byte %d: %q", i%8, i/8, changed)
			}
		}
		for i := range all {
			if !refused(all[:i]) || !refused(append(bytes.Clone(all[:i]), all[i+1:]...)) || !refused(bytes.Join([][]byte{all[:i], all[i:]}, []byte("\n"))) {
				t.Errorf("cut, shortened or lengthened at byte %d", i)
			}
		}
	}
	flipped(written, func(b []byte) bool { _, err := s.Verify(about, string(b)); return err != nil })
	flipped(sealed, func(b []byte) bool { _, err := s.Open(about, b); return err != nil })
}

func TestGenerationsPartsAndSpellingsOfOthersAreRefused(t *testing.T) {
	s := setOf(t, another(t))
	older, newer := s.Sign(about, 1, "older"), s.Sign(about, 2, "newer")
	parts := func(written string) []string {
		line, text, _ := strings.Cut(written, "\n")
		return append(strings.Split(line, " "), text)
	}
	join := func(p []string) string { return strings.Join(p[:4], " ") + "\n" + p[4] }
	for i := 1; i < 5; i++ {
		mixed := parts(older)
		if mixed[i] == parts(newer)[i] {
			continue // the signer is the same
		}
		mixed[i] = parts(newer)[i]
		if _, err := s.Verify(about, join(mixed)); err == nil {
			t.Errorf("verified with part %d of another: %q", i, join(mixed))
		}
	}
	for _, change := range [][2]string{
		{" 2 ", " +2 "},
		{" 2 ", " 02 "},
		{" 2 ", " 0x2 "},
		{" 2 ", " -2 "},
		{" 2 ", "  2 "},
		{" 2 ", " 2\t"},
		{"\n", "\r\n"},
		{"\n", "=\n"},
		{"v1", "v2"},
		{"v1", "V1"},
		{"podagent", " podagent"},
		{"\n", " x\n"},
		{" 2 ", " 18446744073709551618 "},
	} {
		if _, err := keys.Parse(strings.Replace(newer, change[0], change[1], 1)); !errors.Is(err, keys.ErrNoNote) {
			t.Errorf("%q for %q is parsed: %v", change[1], change[0], err)
		}
	}
	for _, text := range []string{"", "\n", "{}", "podagent/v1", "podagent/v1   \n", strings.Repeat("x", 1<<20)} {
		if _, err := s.Verify(about, text); !errors.Is(err, keys.ErrNoNote) {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}

func TestSealedTextsTellNothing(t *testing.T) {
	s := setOf(t, another(t))
	a, b := s.Seal(about, []byte("the same secret")), s.Seal(about, []byte("the same secret"))
	if bytes.Equal(a, b) || bytes.Contains(a, []byte("secret")) || len(a) != keys.Sealed(len("the same secret")) {
		t.Errorf("%x\n%x", a, b)
	}
	if text, err := s.Open(about, b); err != nil || string(text) != "the same secret" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := setOf(t, another(t)).Open(about, a); err == nil {
		t.Error("another identity opened it")
	}
}

// No text but one that was signed is ever verified.
func FuzzVerify(f *testing.F) {
	s := setOf(f, fixed(f))
	signed := s.Sign(about, 5, `{"pod":{}}`)
	for _, seed := range []string{signed, s.Sign(about, 1, ""), s.Sign(keys.Subject{}, 5, `{"pod":{}}`), signed + " ", strings.ToUpper(signed), `{"metadata":{}}`, "podagent/v1 1 SHA256:x AAAA\n", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, written string) {
		n, err := keys.Parse(written)
		if err == nil && n.String() != written {
			t.Errorf("%q is parsed as %q", written, n.String())
		}
		if _, err := s.Verify(about, written); err == nil && written != signed && written != s.Sign(about, 1, "") {
			t.Errorf("%q is verified", written)
		}
	})
}
