// Package authority has the certificate authority of a far end: it signs the certificates with which the
// far end answers for the hosts whose TLS it opens. All of it, but the keys of the leaves, is derived
// from a seed.
package authority

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/netip"
	"sync"
	"time"
)

const (
	// leafLife is how long a certificate of a host is valid, and leafRenewal how long
	// before its end another one is made.
	leafLife, leafRenewal = 24 * time.Hour, 12 * time.Hour
	// leafSkew is how far the sandbox's clock may be behind.
	leafSkew = 24 * time.Hour
	// maxLeaves bounds the certificates that are kept: a wildcard has any number of hosts.
	maxLeaves = 256
)

// CA is the authority of one far end: no sandbox but the far end's own trusts it. Those of
// one seed are the same to the byte, so that a sandbox trusts all replicas of a gateway.
type CA struct {
	key     deterministicKey
	cert    *x509.Certificate
	leafKey *ecdsa.PrivateKey // of all leaves of this process
	now     func() time.Time

	mu     sync.Mutex
	leaves map[string]*tls.Certificate // by host
}

// The time in which an authority is valid says nothing: its key is forgotten with its
// far end. It is the same for all, so that replicas agree.
var (
	authorityBegin = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	authorityEnd   = time.Date(2049, 12, 31, 23, 59, 59, 0, time.UTC)
)

// New derives an authority from a seed, which is secret, and another one for each sandbox.
func New(seed []byte) (*CA, error) {
	key, err := deriveKey(seed)
	if err != nil {
		return nil, err
	}
	a := &CA{key: key, now: time.Now, leaves: map[string]*tls.Certificate{}}
	if a.leafKey, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, err
	}
	if a.cert, err = selfSigned(key); err != nil {
		return nil, fmt.Errorf("making the certificate of the authority: %w", err)
	}
	return a, nil
}

// deterministicKey signs the same text by the same bytes (RFC 6979).
type deterministicKey struct{ *ecdsa.PrivateKey }

func (k deterministicKey) Sign(_ io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	return k.PrivateKey.Sign(nil, digest, opts)
}

// deriveKey derives a key of P-256. Of its candidates, one in 2³² is none.
func deriveKey(seed []byte) (deterministicKey, error) {
	for try := range 4 {
		scalar := Derive(seed, fmt.Sprintf("certificate authority %d", try), 32)
		if key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), scalar); err == nil {
			return deterministicKey{key}, nil
		}
	}
	return deterministicKey{}, fmt.Errorf("no key can be derived from this seed")
}

// Derive returns bytes that only those who have the seed can compute, others for each
// purpose.
func Derive(seed []byte, purpose string, size int) []byte {
	out, err := hkdf.Key(sha256.New, seed, nil, "podagent egress: "+purpose, size)
	if err != nil {
		panic(err) // the size is a constant
	}
	return out
}

func selfSigned(key deterministicKey) (*x509.Certificate, error) {
	spki, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, err
	}
	id := sha256.Sum256(spki)
	template := &x509.Certificate{
		SerialNumber:          new(big.Int).SetBytes(append([]byte{1}, id[:15]...)),
		Subject:               pkix.Name{CommonName: "podagent egress " + hex.EncodeToString(id[:8])},
		SubjectKeyId:          id[:20],
		NotBefore:             authorityBegin,
		NotAfter:              authorityEnd,
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	der, err := x509.CreateCertificate(nil, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// ID returns a name for the authority that others do not have, which can be that of a file.
func (a *CA) ID() string { return hex.EncodeToString(a.cert.SubjectKeyId[:8]) }

// Certificate returns the certificate that a sandbox is to trust.
func (a *CA) Certificate() *x509.Certificate { return a.cert }

// PEM returns that certificate as the content of a file.
func (a *CA) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// Leaf returns a certificate for a host, a name or an address in its canonical form, and its key. It is
// valid for half a day at least. The caller must not change it.
func (a *CA) Leaf(host string) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if kept := a.leaves[host]; kept != nil && a.now().Before(kept.Leaf.NotAfter.Add(-leafRenewal)) {
		return kept, nil
	}
	made, err := a.sign(host)
	if err != nil {
		return nil, fmt.Errorf("making a certificate for %s: %w", host, err)
	}
	for other := range a.leaves {
		if len(a.leaves) < maxLeaves {
			break
		}
		delete(a.leaves, other)
	}
	a.leaves[host] = made
	return made, nil
}

func (a *CA) sign(host string) (*tls.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 126))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial.Add(serial, big.NewInt(1)),
		NotBefore:             a.now().Add(-leafSkew),
		NotAfter:              a.now().Add(leafLife),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	if len(host) <= 64 { // the bound of a common name; some clients want one
		template.Subject.CommonName = host
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		template.IPAddresses = append(template.IPAddresses, addr.AsSlice())
	} else {
		template.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, a.leafKey.Public(), a.key)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParseCertificate(der)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.leafKey, Leaf: parsed}, err
}
