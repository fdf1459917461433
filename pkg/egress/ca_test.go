package egress

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

func mustSessionCA(t testing.TB, seed string) *sessionCA {
	t.Helper()
	a, err := newSessionCA([]byte(seed))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestAuthoritiesOfOneSeedAreTheSame(t *testing.T) {
	one, same, other := mustSessionCA(t, "one"), mustSessionCA(t, "one"), mustSessionCA(t, "other")
	if !bytes.Equal(one.pem(), same.pem()) || one.id() != same.id() {
		t.Error("two of one seed differ")
	}
	if bytes.Equal(one.pem(), other.pem()) || one.id() == other.id() {
		t.Error("two seeds have one authority")
	}
	for signer, want := range map[*sessionCA]bool{one: true, same: true, other: false} {
		leaf, err := signer.leaf("a.test")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := leaf.Leaf.Verify(x509.VerifyOptions{Roots: trusting(one), DNSName: "a.test"}); (err == nil) != want {
			t.Errorf("a leaf is trusted: %v, want %v", err, want)
		}
	}
}

// OpenSSL's strict checks are those of Python 3.13 and later.
func TestCertificatesPassStrictChecks(t *testing.T) {
	a := mustSessionCA(t, "one")
	dir := t.TempDir()
	root := filepath.Join(dir, "root.pem")
	if err := os.WriteFile(root, a.pem(), 0o600); err != nil {
		t.Fatal(err)
	}
	for host, flag := range map[string]string{
		"a.test": "-verify_hostname", "192.0.2.1": "-verify_ip", "2001:db8::1": "-verify_ip",
		string(bytes.Repeat([]byte("long."), 40)) + "test": "-verify_hostname",
	} {
		leaf, err := a.leaf(host)
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
	a := mustSessionCA(t, "one")
	now := time.Now()
	a.now = func() time.Time { return now }
	first, _ := a.leaf("a.test")
	now = now.Add(leafLife - leafRenewal - time.Minute)
	if again, _ := a.leaf("a.test"); again != first {
		t.Error("a leaf that is good is made again")
	}
	now = now.Add(2 * time.Minute)
	if again, _ := a.leaf("a.test"); again == first || !again.Leaf.NotAfter.After(first.Leaf.NotAfter) {
		t.Error("a leaf is not renewed")
	}
	for i := range 2 * maxLeaves {
		if _, err := a.leaf(fmt.Sprint(i, ".test")); err != nil {
			t.Fatal(err)
		}
	}
	if len(a.leaves) > maxLeaves {
		t.Errorf("%d leaves are kept", len(a.leaves))
	}
}
