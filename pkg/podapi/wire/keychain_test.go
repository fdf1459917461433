package wire

import (
	"crypto/ed25519"
	"slices"
	"strings"
	"testing"
)

// pair is a key pair whose seed is one byte again and again.
func pair(seed byte) (ed25519.PrivateKey, AuthorizedKey) {
	key := ed25519.NewKeyFromSeed([]byte(strings.Repeat(string(rune('a'+seed)), ed25519.SeedSize)))
	return key, NewAuthorizedKey(key.Public().(ed25519.PublicKey))
}

func extend(t testing.TB, chain, podUID string, signer byte, keys ...byte) string {
	t.Helper()
	private, _ := pair(signer)
	longer, err := ExtendKeychain(chain, podUID, private, publics(keys...))
	if err != nil {
		t.Fatal(err)
	}
	return longer
}

func publics(seeds ...byte) (keys []AuthorizedKey) {
	for _, seed := range seeds {
		_, public := pair(seed)
		keys = append(keys, public)
	}
	return keys
}

func fingerprints(keys []AuthorizedKey) (list []string) {
	for _, k := range keys {
		list = append(list, k.Fingerprint())
	}
	return list
}

func wantKeys(t testing.TB, chain, podUID string, whole bool, want ...byte) {
	t.Helper()
	keys, _, err := FollowKeychain(chain, podUID, publics(0))
	if (err == nil) != whole || !slices.Equal(fingerprints(keys), fingerprints(publics(want...))) {
		t.Errorf("%q: got %v, %v", chain, fingerprints(keys), err)
	}
}

func TestKeychainIsFollowedAsFarAsItIsSigned(t *testing.T) {
	both := extend(t, "", "u", 0, 0, 1)
	newer := extend(t, both, "u", 0, 1)
	third := extend(t, newer, "u", 1, 1, 2)
	wantKeys(t, "", "u", true, 0)
	wantKeys(t, both, "u", true, 0, 1)
	wantKeys(t, newer, "u", true, 1)
	wantKeys(t, third, "u", true, 1, 2)
	wantKeys(t, both, "other", false, 0)
	wantKeys(t, extend(t, "", "u", 1, 1), "u", false, 0)       // by a key that does not count
	wantKeys(t, extend(t, newer, "u", 0, 0, 3), "u", false, 1) // by one that counts no more
	links := strings.Fields(third)
	wantKeys(t, links[1], "u", false, 0)                 // in another place
	wantKeys(t, links[0]+" "+links[2], "u", false, 0, 1) // with a gap
	wantKeys(t, links[0]+" "+links[0], "u", false, 0, 1) // twice
	wantKeys(t, strings.Replace(both, ",ed25519", ",,ed25519", 1), "u", false, 0)
	wantKeys(t, links[0][:strings.LastIndex(links[0], ",")], "u", false, 0)
	wantKeys(t, strings.Split(both, ",")[0], "u", false, 0)
}

// Another spelling of a link is no link: whoever replaces one by it would have a chain as good as
// that of the agent, and the agent would take no chain that lengthens it.
func TestLinkIsWrittenInOneWay(t *testing.T) {
	both := extend(t, "", "u", 0, 0, 1)
	whole := extend(t, both, "u", 0, 1)
	for _, end := range []string{",", "=,", "="} {
		at := strings.Index(both, end) - 1
		spelled := both[:at] + string(both[at]+1) + both[at+1:] // the bits that decoding drops
		wantKeys(t, spelled, "u", false, 0)
		wantKeys(t, spelled+strings.TrimPrefix(whole, both), "u", false, 0)
	}
	_, key := pair(0)
	text := strings.TrimSuffix(key.String(), "=")
	last := len(text) - 1
	if got, err := ParseAuthorizedKey(text[:last] + string(text[last]+1) + "="); err == nil {
		t.Errorf("another spelling of %s is parsed as %s", key, got)
	}
}

func TestKeychainHasBounds(t *testing.T) {
	chain := ""
	for range MaxLinks {
		chain = extend(t, chain, "u", 0, 0)
	}
	wantKeys(t, chain, "u", true, 0)
	private, _ := pair(0)
	if _, err := ExtendKeychain(chain, "u", private, publics(0)); err == nil {
		t.Error("there is another link")
	}
	if _, err := ExtendKeychain("", "u", private, publics(0, 1, 2, 3, 4, 5, 6, 7, 8)); err == nil {
		t.Error("a link has nine keys")
	}
	if n := len(chain); n > 16<<10 {
		t.Errorf("it has %d bytes", n)
	}
}

// No keys count but those that a chain of ours names.
func FuzzFollowKeychain(f *testing.F) {
	both := extend(f, "", "u", 0, 0, 1)
	whole := extend(f, both, "u", 0, 1)
	end := strings.Index(both, ",") - 1
	spelled := both[:end] + string(both[end]+1) + both[end+1:]
	for _, seed := range []string{"", both, whole, both + " " + both, "x,ed25519:", ",", spelled} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, chain string) {
		keys, links, err := FollowKeychain(chain, "u", publics(0))
		if good := strings.Join(strings.Fields(chain)[:links], " "); good != "" && !strings.HasPrefix(whole+" ", good+" ") {
			t.Errorf("%q: it is written in another way", chain)
		}
		switch got := fingerprints(keys); {
		case slices.Equal(got, fingerprints(publics(0))):
		case slices.Equal(got, fingerprints(publics(0, 1))) && links >= 1:
		case slices.Equal(got, fingerprints(publics(1))) && links >= 2:
		default:
			t.Errorf("%q: %v, %v", chain, got, err)
		}
	})
}
