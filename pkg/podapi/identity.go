package podapi

import (
	"context"
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
type Identity struct {
	key    ed25519.PrivateKey
	others func(context.Context) ([]ed25519.PrivateKey, error)
}

// NewIdentity makes an identity from the system's randomness.
func NewIdentity() (Identity, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	return Identity{key: key}, err
}

// ParseIdentity parses an Ed25519 private key in PKCS#8, in PEM.
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
	return Identity{key: key}, nil
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

// ClientTLS returns the configuration of TLS 1.3 for calls to the agent of the pod with
// this UID. Another is [ErrWrongPod]; empty accepts any.
func (id Identity) ClientTLS(podUID string) (*tls.Config, error) {
	return wire.ClientTLS(id.key, podUID, id.others)
}

// WithOthers returns id with others to call as. A handshake asks for them if the agent
// does not accept id, and uses the first that it does.
func (id Identity) WithOthers(others func(context.Context) ([]Identity, error)) Identity {
	id.others = func(ctx context.Context) (keys []ed25519.PrivateKey, err error) {
		list, err := others(ctx)
		for _, other := range list {
			keys = append(keys, other.key)
		}
		return keys, err
	}
	return id
}
