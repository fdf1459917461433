package podapi

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"
)

// keyPrefix begins an authorized key: the algorithm, as in ssh's files.
const keyPrefix = "ed25519:"

// AuthorizedKey is the public half of an [Identity]. Whoever holds the other
// half may call an agent that was given this one.
type AuthorizedKey struct{ key ed25519.PublicKey }

// ParseAuthorizedKey parses what [AuthorizedKey.String] returns.
func ParseAuthorizedKey(s string) (AuthorizedKey, error) {
	data, ok := strings.CutPrefix(strings.TrimSpace(s), keyPrefix)
	key, err := base64.StdEncoding.DecodeString(data)
	if !ok || err != nil || len(key) != ed25519.PublicKeySize {
		return AuthorizedKey{}, fmt.Errorf("authorized key %q is not of the form %sBASE64 with %d bytes", s, keyPrefix, ed25519.PublicKeySize)
	}
	return AuthorizedKey{key}, nil
}

// String returns the key as "ed25519:" and the base64 of its 32 bytes.
func (k AuthorizedKey) String() string {
	return keyPrefix + base64.StdEncoding.EncodeToString(k.key)
}

// Fingerprint returns a short name of the key, for annotations and messages:
// "SHA256:" and the unpadded base64 of its hash, as ssh does.
func (k AuthorizedKey) Fingerprint() string {
	sum := sha256.Sum256(k.key)
	return "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:])
}

// Identity is the secret by which a caller proves that it may call. It stays
// with the caller; sandboxes get its [Identity.AuthorizedKey] only.
type Identity struct{ key ed25519.PrivateKey }

// NewIdentity makes an identity from the system's randomness.
func NewIdentity() (Identity, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	return Identity{key}, err
}

// ParseIdentity parses a PKCS#8 private key in PEM, as MarshalPEM returns it
// and as `openssl genpkey -algorithm ed25519` makes it.
func ParseIdentity(data []byte) (Identity, error) {
	block, _ := pem.Decode(data)
	if block == nil {
		return Identity{}, errors.New("cannot parse identity: no PEM block")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return Identity{}, fmt.Errorf("cannot parse identity: %w", err)
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return Identity{}, fmt.Errorf("cannot parse identity: it is a %T, not an Ed25519 key", parsed)
	}
	return Identity{key}, nil
}

// MarshalPEM returns the private key as PKCS#8 in PEM.
func (id Identity) MarshalPEM() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(id.key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// AuthorizedKey returns the public half.
func (id Identity) AuthorizedKey() AuthorizedKey {
	return AuthorizedKey{id.key.Public().(ed25519.PublicKey)}
}

// ClientTLS returns the configuration with which the holder of id calls the
// agent of the pod with this UID: TLS 1.3, and an error in the handshake when
// another pod answers. An empty podUID, outside of Kubernetes, accepts any.
func (id Identity) ClientTLS(podUID string) (*tls.Config, error) {
	cert, err := selfSigned(id.key, "podagent client")
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{cert},
		NextProtos:   []string{"h2"}, // gRPC insists
		// Small records at first are for browsers, which show a part of a page.
		DynamicRecordSizingDisabled: true,
		// No authority vouches for an agent: its certificate names the pod, against
		// mix-ups, and is the agent's for whoever has seen it where nobody else
		// could be.
		InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			got := state.PeerCertificates[0].Subject.CommonName
			if podUID != "" && got != podUID {
				return fmt.Errorf("%w: it is %q, not %q", ErrWrongPod, got, podUID)
			}
			return nil
		},
	}, nil
}

// AgentTLS returns the configuration with which the agent of the pod with
// this UID serves the holders of keys, and nobody else.
func AgentTLS(podUID string, keys []AuthorizedKey) (*tls.Config, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	cert, err := selfSigned(key, podUID)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{cert},
		ClientAuth:   tls.RequireAnyClientCert,
		// A session that is resumed shows no key. Whoever could read the keys of
		// tickets would make one.
		SessionTicketsDisabled:      true,
		DynamicRecordSizingDisabled: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			key, ok := state.PeerCertificates[0].PublicKey.(ed25519.PublicKey)
			for _, k := range keys {
				if ok && k.key.Equal(key) {
					return nil
				}
			}
			return errors.New("client key is not authorized")
		},
	}, nil
}

// selfSigned returns a certificate of key by itself. Nobody checks its dates:
// keys are pinned, and clocks in sandboxes may be off.
func selfSigned(key ed25519.PrivateKey, name string) (tls.Certificate, error) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Unix(0, 0),
		NotAfter:     time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}
