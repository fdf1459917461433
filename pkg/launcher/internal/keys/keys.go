// Package keys derives further keys from an identity: to sign notes in the cluster, and
// to seal secrets in them. Only holders of the identity can derive them, and all
// orchestrators that share it derive the same.
//
// Each purpose has a key of its own (HKDF-SHA256, RFC 5869, of the identity's seed,
// with the purpose as its info). So nothing that is signed for one purpose means
// anything for another, or in the TLS by which the identity itself is used.
package keys

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// A Purpose names what a key is for, and the version of how it is used.
type Purpose string

const (
	// Signing is for Ed25519 signatures of notes.
	Signing Purpose = "podagent note signing v1"
	// Sealing is for AES-256-GCM with random nonces, which allow 2³² seals.
	Sealing Purpose = "podagent note sealing v1"
	// Host is for the Ed25519 host keys of SSH servers.
	Host Purpose = "podagent ssh host v1"
	// GatewayHost is for the Ed25519 host keys of gateways that serve SSH.
	GatewayHost Purpose = "podagent gateway ssh host v1"
)

// size is that of each key in bytes.
const size = 32

// Derive returns the identity's key for a purpose.
func Derive(id podapi.Identity, purpose Purpose) ([]byte, error) {
	seed, err := seedOf(id)
	if err != nil {
		return nil, err
	}
	return hkdf.Key(sha256.New, seed, nil, string(purpose), size)
}

// seedOf returns the secret that the identity consists of.
func seedOf(id podapi.Identity) ([]byte, error) {
	data, err := id.MarshalPEM()
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("the identity is not in PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("the identity is a %T", parsed)
	}
	return key.Seed(), nil
}

// Set has the keys of an identity. It may be used concurrently.
type Set struct {
	signer string // the identity's fingerprint
	caller ed25519.PrivateKey
	sign   ed25519.PrivateKey
	seal   cipher.AEAD
}

// Of derives the keys of an identity.
func Of(id podapi.Identity) (Set, error) {
	seed, err := seedOf(id)
	if err != nil {
		return Set{}, err
	}
	signing, err := Derive(id, Signing)
	if err != nil {
		return Set{}, err
	}
	sealing, err := Derive(id, Sealing)
	if err != nil {
		return Set{}, err
	}
	block, err := aes.NewCipher(sealing)
	if err != nil {
		return Set{}, err
	}
	seal, err := cipher.NewGCMWithRandomNonce(block)
	return Set{id.AuthorizedKey().Fingerprint(), ed25519.NewKeyFromSeed(seed), ed25519.NewKeyFromSeed(signing), seal}, err
}

// Authorize extends a pod's keychain by a link after which these keys count. Agents know
// no derived key, so the identity itself signs the link.
func (s Set) Authorize(chain, podUID string, keys []wire.AuthorizedKey) (string, error) {
	return wire.ExtendKeychain(chain, podUID, s.caller, keys)
}

// Idle says when an agent ends for want of work: see [podapiv1.Assignment].
type Idle struct {
	Timeout         time.Duration
	IgnoresCommands bool
}

// Assignment assigns the agent of a pod to a sandbox, in the text that the agent takes.
func (s Set) Assignment(podUID string, env, protected []string, idle Idle) (string, error) {
	a := &podapiv1.Assignment{IdleTimeout: int64(idle.Timeout), IdleIgnoresCommands: idle.IgnoresCommands}
	for _, v := range env {
		a.Env = append(a.Env, []byte(v))
	}
	for _, pattern := range protected {
		a.ProtectedPaths = append(a.ProtectedPaths, []byte(pattern))
	}
	return wire.SignAssignment(a, podUID, s.caller)
}

// AssignmentAnew signs an assignment anew, for the agent of a pod, that one of these keys has
// signed for from: a pod's UID, or the place where it is kept.
func (s Set) AssignmentAnew(text, from, podUID string, signers []wire.AuthorizedKey) (string, error) {
	return wire.SignAssignmentAnew(text, from, podUID, signers, s.caller)
}

// Seal encrypts a text that belongs to a subject. Open needs the same subject.
func (s Set) Seal(about Subject, text []byte) []byte {
	return s.seal.Seal(nil, nil, text, about.bytes("podagent sealed v1"))
}

// Sealed returns how many bytes a text of this size has when it is sealed.
func Sealed(size int) int { return size + 12 + 16 } // nonce and tag

// Open decrypts what Seal returned for the same identity and subject. Anything else
// is an error.
func (s Set) Open(about Subject, sealed []byte) ([]byte, error) {
	text, err := s.seal.Open(nil, nil, sealed, about.bytes("podagent sealed v1"))
	if err != nil {
		return nil, errors.New("it was not sealed by this identity for this place, or has been changed")
	}
	return text, nil
}
