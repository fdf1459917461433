package wire

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
)

// keyPrefix begins an authorized key: the algorithm, as in ssh's files.
const keyPrefix = "ed25519:"

// AuthorizedKey is the public half of a caller's identity. An agent that was given
// it accepts calls from the holder of the private half.
type AuthorizedKey struct{ key ed25519.PublicKey }

// NewAuthorizedKey returns key as an authorized key.
func NewAuthorizedKey(key ed25519.PublicKey) AuthorizedKey { return AuthorizedKey{key} }

// ParseAuthorizedKey parses what [AuthorizedKey.String] returns, with or without white
// space around it. Anything else is an error.
func ParseAuthorizedKey(s string) (AuthorizedKey, error) {
	data, ok := strings.CutPrefix(strings.TrimSpace(s), keyPrefix)
	key, err := base64.StdEncoding.Strict().DecodeString(data)
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
