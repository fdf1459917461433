package podapi

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/podagent/podagent/pkg/podapi/wire"
)

// Identity is the secret by which a caller proves that it may call. It stays with
// the caller; sandboxes get its [Identity.AuthorizedKey] only.
type Identity struct{ key ed25519.PrivateKey }

// NewIdentity makes an identity from the system's randomness.
func NewIdentity() (Identity, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	return Identity{key}, err
}

// ParseIdentity parses a PKCS#8 private key in PEM, as of MarshalPEM or of
// `openssl genpkey -algorithm ed25519`.
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

// AuthorizedKey returns the public half, whose String is what an agent takes.
func (id Identity) AuthorizedKey() wire.AuthorizedKey {
	return wire.NewAuthorizedKey(id.key.Public().(ed25519.PublicKey))
}

// ClientTLS returns the configuration of TLS 1.3 for calls by id to the agent of the
// pod with this UID. Another pod is [ErrWrongPod] in the handshake; an empty podUID
// accepts any.
func (id Identity) ClientTLS(podUID string) (*tls.Config, error) {
	return wire.ClientTLS(id.key, podUID)
}
