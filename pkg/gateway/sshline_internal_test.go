package gateway

import (
	"crypto/ed25519"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// aKey is a public key as a line has it.
func aKey(t testing.TB, seed byte) string {
	t.Helper()
	private := ed25519.NewKeyFromSeed([]byte(strings.Repeat(string(rune('a'+seed%26)), ed25519.SeedSize)))
	public, err := ssh.NewPublicKey(private.Public())
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(public)))
}

func TestLinesOfAuthorizedKeys(t *testing.T) {
	l, err := parseSSHLine("acme", `from="10.0.0.0/8,!10.1.2.3,2001:db8::1",expiry-time="203001020304Z",no-pty,No-Port-Forwarding,no-agent-forwarding `+aKey(t, 0)+" ann at home")
	if err != nil {
		t.Fatal(err)
	}
	if l.name != "ann at home" || !l.NoTerminals || !l.NoPorts || l.principals != nil || !l.expires.Equal(time.Date(2030, 1, 2, 3, 4, 0, 0, time.UTC)) {
		t.Errorf("%+v", l)
	}
	for address, want := range map[string]bool{"10.1.2.4": true, "10.1.2.3": false, "::ffff:10.1.2.4": true, "::ffff:10.1.2.3": false, "11.0.0.1": false, "2001:db8::1": true, "2001:db8::2": false} {
		if got := allowsFrom(l.from, netip.MustParseAddr(address)); got != want {
			t.Errorf("from %s: %v", address, got)
		}
	}
	if l, err = parseSSHLine("acme", `restrict,pty `+aKey(t, 0)); err != nil || l.NoTerminals || !l.NoPorts || !strings.HasPrefix(l.name, "SHA256:") {
		t.Errorf("%+v, %v", l, err)
	}
	if l, err = parseSSHLine("acme", `cert-authority,principals="a,b c" `+aKey(t, 0)); err != nil || len(l.principals) != 2 {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestLinesThatAreRefused(t *testing.T) {
	k := aKey(t, 0)
	for _, line := range []string{
		"", "#", "no key", strings.Fields(k)[1], "ssh-ed25519 AAAA", k + "\n" + k, `command="true" ` + k, `environment="A=b" ` + k, `permitopen="a:1" ` + k, `tunnel="0" ` + k,
		`restrict="x" ` + k, `from=10.0.0.1 ` + k, `from="host.example.com" ` + k, `from="10.0.*" ` + k, `from="" ` + k, `from ` + k, `expiry-time="20300101" ` + k, `expiry-time="soon" ` + k,
		`cert-authority ` + k, `principals="a" ` + k, `cert-authority,principals="" ` + k, `cert-authority,principals="a,,b" ` + k, `cert-authority,principals="a\"b" ` + k,
		k + " " + strings.Repeat("x", 300), k + " \x1b[2J",
		"ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQC6eNtGpNGwstc....",
		"ssh-dss AAAAB3NzaC1kc3MAAACBAP",
	} {
		if l, err := parseSSHLine("acme", line); err == nil {
			t.Errorf("%q is taken: %+v", line, l)
		}
	}
	var keys sshKeys
	authority := `cert-authority,principals="dev" ` + k
	if err := keys.add("acme", k); err != nil {
		t.Error(err)
	}
	if err := keys.add("other", k); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("a key of two tenants: %v", err)
	}
	if err := keys.add("acme", authority); err != nil {
		t.Error(err)
	}
	if err := keys.add("other", authority); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("a principal of two tenants: %v", err)
	}
}

func TestMistakeInAKeyOfSSHLetsNobodyIn(t *testing.T) {
	for text, want := range map[string]string{
		fmt.Sprintf("tenants: {acme: {ssh: [%q]}}", aKey(t, 0)):                             "",
		`tenants: {acme: {ssh: ["nonsense"]}}`:                                              `tenant "acme": ssh: line 1`,
		fmt.Sprintf("tenants: {acme: {ssh: [%q]}, b: {ssh: [%q]}}", aKey(t, 0), aKey(t, 0)): "twice",
	} {
		_, err := parseKeys([]byte(text))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// FuzzSSHLine also shows whatever key a line has, as a client would.
func FuzzSSHLine(f *testing.F) {
	f.Add(`from="10.0.0.0/8,!10.1.2.3",expiry-time="203001020304Z",no-pty ` + aKey(f, 1) + " ann")
	f.Add(`cert-authority,principals="a,b" ` + aKey(f, 1))
	f.Add("restrict " + aKey(f, 2))
	f.Fuzz(func(t *testing.T, text string) {
		keys, err := parseSSHLines("acme", text)
		if err != nil {
			return
		}
		for _, l := range keys.keys {
			again, err := parseSSHLine("acme", strings.TrimSpace(string(ssh.MarshalAuthorizedKey(l.key))))
			if err != nil || again.NoPorts || again.from != nil {
				t.Errorf("%+v, %v", again, err)
			}
			caller, err := keys.caller(SSHKey{l.key, netip.MustParseAddr("127.0.0.1")})
			if err == nil && (caller.Tenant != "acme" || caller.NoPorts != l.NoPorts || caller.NoTerminals != l.NoTerminals) {
				t.Errorf("%+v", caller)
			}
		}
		for _, of := range keys.authorities {
			for _, l := range of {
				if len(l.principals) == 0 {
					t.Error("an authority without principals")
				}
				cert := &ssh.Certificate{Key: l.key, CertType: ssh.UserCert, SignatureKey: l.key, ValidBefore: ssh.CertTimeInfinity, ValidPrincipals: l.principals, Signature: &ssh.Signature{Format: l.key.Type()}}
				if caller, err := keys.caller(SSHKey{cert, netip.MustParseAddr("127.0.0.1")}); err == nil {
					t.Errorf("without a signature: %+v", caller)
				}
			}
		}
	})
}

func TestRevokedKeysAreOfTheirTenantAlone(t *testing.T) {
	var revoked sshRevoked
	for _, line := range []string{"", "# a comment", "serial: 1", "no-pty " + aKey(t, 0), aKey(t, 0) + "\n" + aKey(t, 1), "ssh-ed25519 AAAA"} {
		if err := revoked.add("acme", line); err == nil {
			t.Errorf("%q is taken", line)
		}
	}
	if err := revoked.add("acme", aKey(t, 0)+" of a laptop that was lost"); err != nil {
		t.Fatal(err)
	}
	keys := sshKeys{revoked: revoked}
	for i, tenant := range []string{"acme", "other"} {
		if err := keys.add(tenant, aKey(t, byte(i))); err != nil {
			t.Fatal(err)
		}
	}
	for i, counts := range []bool{false, true} {
		key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(aKey(t, byte(i))))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := keys.caller(SSHKey{Key: key, From: netip.MustParseAddr("10.0.0.1")}); (err == nil) != counts {
			t.Errorf("key %d: %v", i, err)
		}
		if revoked.has("other", key) {
			t.Errorf("key %d is revoked for another tenant", i)
		}
	}
}
