package sshport_test

import (
	"crypto/rand"
	"crypto/rsa"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/podagent/podagent/pkg/gateway"
)

// certify has OpenSSH's ssh-keygen make a certificate for a key, by an authority's key. It returns a
// key with which OpenSSH's programs show it.
func certify(t *testing.T, authority, of key, options ...string) key {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "key")
	private, err := os.ReadFile(of.file)
	if err != nil {
		t.Fatal(err)
	}
	public := ssh.MarshalAuthorizedKey(of.PublicKey())
	for name, data := range map[string][]byte{"key": private, "key.pub": public} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command("ssh-keygen", append(append([]string{"-q", "-s", authority.file, "-I", "a certificate"}, options...), file+".pub")...)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(file + "-cert.pub")
	if err != nil {
		t.Fatal(err)
	}
	parsed, _, _, _, err := ssh.ParseAuthorizedKey(text)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewCertSigner(parsed.(*ssh.Certificate), of.Signer)
	if err != nil {
		t.Fatal(err)
	}
	return key{signer, file}
}

func TestCertificateCountsByItsPrincipal(t *testing.T) {
	needs(t, "ssh", "ssh-keygen")
	t.Parallel()
	d := newDoor(t)
	authority := newKey(t)
	line := `cert-authority,principals="dev,ops" ` + authority.line("authority")
	d.setKeys("", []string{line}, []string{`cert-authority,principals="others" ` + authority.line("authority")})
	ann := certify(t, authority, d.ann, "-n", "someone,ops", "-V", "-1m:+1h", "-O", "source-address=127.0.0.0/8")
	if out, said, status := d.ssh(ann, "box", "echo $((6*7))"); out != "42\n" {
		t.Fatalf("%q, %q, %d", out, said, status)
	}
	if act := d.of(t, "ssh.processes/Exec", 1)[0]; act.Tenant != "acme" || act.Key != "ops" {
		t.Errorf("the act: %+v", act)
	}
	client := d.connected(ann, "box")
	d.setKeys("", []string{d.ann.line("ann")}, nil) // its authority counts no longer
	_ = client.Wait()
}

func TestCertificatesThatDoNotCount(t *testing.T) {
	needs(t, "ssh-keygen")
	t.Parallel()
	d := newDoor(t)
	authority, stranger := newKey(t), newKey(t)
	d.setKeys("", []string{`cert-authority,principals="dev" ` + authority.line("authority"), d.ann.line("ann")}, []string{`cert-authority,principals="others" ` + authority.line("authority")})
	guest := newKey(t)
	for what, cert := range map[string]key{
		"another principal":          certify(t, authority, guest, "-n", "Dev,box,acme"),
		"no principal":               certify(t, authority, guest),
		"expired":                    certify(t, authority, guest, "-n", "dev", "-V", "-2h:-1h"),
		"not yet valid":              certify(t, authority, guest, "-n", "dev", "-V", "+1h:+2h"),
		"another authority":          certify(t, stranger, guest, "-n", "dev"),
		"a key that is no authority": certify(t, d.ann, guest, "-n", "dev"),
		"of a host":                  certify(t, authority, guest, "-h", "-n", "dev"),
		"force-command":              certify(t, authority, guest, "-n", "dev", "-O", "force-command=true"),
		"an unknown option":          certify(t, authority, guest, "-n", "dev", "-O", "critical:verify-everything"),
		"from elsewhere":             certify(t, authority, guest, "-n", "dev", "-O", "source-address=192.0.2.0/24"),
		"principals of two tenants":  certify(t, authority, guest, "-n", "dev,others"),
		"the authority itself":       authority,
	} {
		if client, err := d.connect(cert, "box"); err == nil {
			client.Close()
			t.Errorf("%s: it counts", what)
		} else if !strings.Contains(err.Error(), "unable to authenticate") {
			t.Errorf("%s: %v", what, err)
		}
	}
	bare := certify(t, authority, guest, "-n", "dev", "-O", "clear")
	client := d.connected(bare, "box")
	if conn, err := client.Dial("tcp", d.address); err == nil || !strings.Contains(err.Error(), "no ports") {
		t.Errorf("without permit-port-forwarding: %v, %v", conn, err)
	}
	session, err := client.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	if err := session.RequestPty("xterm", 24, 80, nil); err == nil {
		t.Error("without permit-pty")
	}
	if out, err := session.Output("echo in"); string(out) != "in\n" {
		t.Errorf("%q, %v", out, err)
	}
}

// A certificate, and its connections, end with its key, also where the authority signs another one for it.
func TestRevokedKeyEndsItsCertificatesAndTheirConnections(t *testing.T) {
	needs(t, "ssh", "ssh-keygen")
	t.Parallel()
	d := newDoor(t)
	authority, guest, other := newKey(t), newKey(t), newKey(t)
	lines := []string{`cert-authority,principals="dev" ` + authority.line("authority"), d.ann.line("ann")}
	d.setKeys("", lines, nil)
	first, second := certify(t, authority, guest, "-n", "dev"), certify(t, authority, other, "-n", "dev")
	client, stays := d.connected(first, "box"), d.connected(second, "box")
	revoke := func(keys ...key) {
		var list []string
		for _, k := range keys {
			list = append(list, k.line("gone"))
		}
		d.setKeys("    revoked_keys: "+quoted(list)+"\n", lines, nil)
	}
	refused := func(what string, k key) {
		t.Helper()
		if c, err := d.connect(k, "box"); err == nil {
			c.Close()
			t.Errorf("%s counts", what)
		}
	}

	revoke(guest)
	_ = client.Wait()
	refused("a certificate of a revoked key", first)
	refused("a new certificate of a revoked key", certify(t, authority, guest, "-n", "dev", "-z", "2"))
	if out, said, status := d.ssh(second, "box", "echo in"); out != "in\n" {
		t.Errorf("the certificate of another key: %q, %q, %d", out, said, status)
	}

	revoke(authority, d.ann)
	_ = stays.Wait()
	refused("a certificate of a revoked authority", second)
	refused("a revoked key", d.ann)
}

// plainSigner signs by the algorithm that the type of its key is named for: for RSA that is by SHA-1.
type plainSigner struct{ ssh.Signer }

func TestCertificateThatIsSignedBySHA1DoesNotCount(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	authority, err := ssh.NewSignerFromSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	d.setKeys("", []string{`cert-authority,principals="dev" ` + key{Signer: authority}.line("authority")}, nil)
	for format, by := range map[string]ssh.Signer{ssh.KeyAlgoRSASHA256: authority, ssh.KeyAlgoRSA: plainSigner{authority}} {
		cert := &ssh.Certificate{Key: d.ann.PublicKey(), CertType: ssh.UserCert, ValidPrincipals: []string{"dev"}, ValidBefore: ssh.CertTimeInfinity}
		if err := cert.SignCert(rand.Reader, by); err != nil || cert.Signature.Format != format {
			t.Fatalf("signing by %s: %v, %v", format, cert.Signature, err)
		}
		_, err := d.gateway.SSHCaller(gateway.SSHKey{Key: cert, From: netip.MustParseAddr("127.0.0.1")})
		if counts := err == nil; counts != (format == ssh.KeyAlgoRSASHA256) {
			t.Errorf("signed by %s: %v", format, err)
		}
	}
}
