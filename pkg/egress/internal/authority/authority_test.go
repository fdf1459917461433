package authority

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

func mustCA(t testing.TB, seed string) *CA {
	t.Helper()
	a, err := New([]byte(seed))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestAuthoritiesOfOneSeedAreTheSame(t *testing.T) {
	one, same, other := mustCA(t, "one"), mustCA(t, "one"), mustCA(t, "other")
	if !bytes.Equal(one.PEM(), same.PEM()) || one.ID() != same.ID() {
		t.Error("two of one seed differ")
	}
	if bytes.Equal(one.PEM(), other.PEM()) || one.ID() == other.ID() {
		t.Error("two seeds have one authority")
	}
	for signer, want := range map[*CA]bool{one: true, same: true, other: false} {
		roots := x509.NewCertPool()
		roots.AddCert(one.Certificate())
		leaf, err := signer.Leaf("a.test")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := leaf.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "a.test"}); (err == nil) != want {
			t.Errorf("a leaf is trusted: %v, want %v", err, want)
		}
	}
}

// OpenSSL's strict checks are those of Python 3.13 and later.
func TestCertificatesPassStrictChecks(t *testing.T) {
	a := mustCA(t, "one")
	dir := t.TempDir()
	root := filepath.Join(dir, "root.pem")
	if err := os.WriteFile(root, a.PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	for host, flag := range map[string]string{
		"a.test": "-verify_hostname", "192.0.2.1": "-verify_ip", "2001:db8::1": "-verify_ip",
		string(bytes.Repeat([]byte("long."), 40)) + "test": "-verify_hostname",
	} {
		leaf, err := a.Leaf(host)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "leaf.pem")
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf.Certificate[0]}), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("openssl", "verify", "-x509_strict", "-purpose", "sslserver", flag, host, "-CAfile", root, file).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", host, err, out)
		}
	}
}

func TestLeavesAreKeptRenewedAndBounded(t *testing.T) {
	a := mustCA(t, "one")
	now := time.Now()
	a.now = func() time.Time { return now }
	first, _ := a.Leaf("a.test")
	now = now.Add(leafLife - leafRenewal - time.Minute)
	if again, _ := a.Leaf("a.test"); again != first {
		t.Error("a leaf that is good is made again")
	}
	now = now.Add(2 * time.Minute)
	if again, _ := a.Leaf("a.test"); again == first || !again.Leaf.NotAfter.After(first.Leaf.NotAfter) {
		t.Error("a leaf is not renewed")
	}
	for i := range 2 * maxLeaves {
		if _, err := a.Leaf(fmt.Sprint(i, ".test")); err != nil {
			t.Fatal(err)
		}
	}
	if len(a.leaves) > maxLeaves {
		t.Errorf("%d leaves are kept", len(a.leaves))
	}
}
