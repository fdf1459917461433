package wire

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// An agent is started with keys that stay as they are for as long as its pod lasts. A
// keychain replaces them. Each of its links names all keys that count from then on, and is
// signed by one of those before it; the first by one that the agent was started with. So a
// user who may change the pod's annotations, but has no key, can at most shorten the chain.
//
// As text, a link is the base64 of its signature and its keys, with commas between them.
// A space separates links. There is one way to write a link: whoever writes it in another way
// must not have a chain that is signed, but does not begin with the present one.

// The bounds of a keychain. Its text stays far below the size of a pod's annotations.
const (
	// MaxLinks bounds how often the keys of an agent are replaced.
	MaxLinks = 64
	// MaxKeys bounds the keys that count at a time.
	MaxKeys = 8
)

// FollowKeychain returns the keys that count for the agent of this pod, which was started
// with the first keys, and the number of links that say so. The error says why the rest of
// the chain is not believed.
func FollowKeychain(chain, podUID string, first []AuthorizedKey) (keys []AuthorizedKey, links int, err error) {
	keys = first
	for i, link := range strings.Fields(chain) {
		next, err := followLink(link, podUID, i, keys)
		if err != nil {
			return keys, i, fmt.Errorf("link %d of the keychain: %w", i+1, err)
		}
		keys, links = next, i+1
	}
	return keys, links, nil
}

func followLink(link, podUID string, i int, before []AuthorizedKey) ([]AuthorizedKey, error) {
	fields := strings.Split(link, ",")
	if i >= MaxLinks || len(fields) > 1+MaxKeys {
		return nil, errors.New("it is too long")
	}
	signature, err := base64.RawStdEncoding.Strict().DecodeString(fields[0])
	if err != nil {
		return nil, errors.New("its signature is not in base64")
	}
	var keys []AuthorizedKey
	for _, field := range fields[1:] {
		key, err := ParseAuthorizedKey(field)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, errors.New("it has no keys")
	}
	if linkText(signature, keys) != link {
		return nil, errors.New("it is not written as links are")
	}
	statement := linkStatement(podUID, i, keys)
	for _, key := range before {
		if ed25519.Verify(key.key, statement, signature) {
			return keys, nil
		}
	}
	return nil, errors.New("no key that counts before it has signed it")
}

// ExtendKeychain returns the chain with one more link, after which these keys count. signer
// is one of those that count before.
func ExtendKeychain(chain, podUID string, signer ed25519.PrivateKey, keys []AuthorizedKey) (string, error) {
	links := strings.Fields(chain)
	if len(links) >= MaxLinks || len(keys) > MaxKeys {
		return "", fmt.Errorf("the keys of a pod can be replaced %d times, by up to %d keys each time", MaxLinks, MaxKeys)
	}
	signature := ed25519.Sign(signer, linkStatement(podUID, len(links), keys))
	return strings.Join(append(links, linkText(signature, keys)), " "), nil
}

// linkText returns a link as it is written.
func linkText(signature []byte, keys []AuthorizedKey) string {
	link := []string{base64.RawStdEncoding.EncodeToString(signature)}
	for _, key := range keys {
		link = append(link, key.String())
	}
	return strings.Join(link, ",")
}

// linkStatement returns the text that the i-th link signs. The identity's key signs
// other kinds of texts, which begin otherwise: assignments, handshakes of TLS, which begin with
// spaces, and its own certificates, which begin with 0x30 as all sequences of DER do.
func linkStatement(podUID string, i int, keys []AuthorizedKey) []byte {
	b := []byte("podagent keychain v1\n" + podUID + "\n")
	b = binary.BigEndian.AppendUint32(b, uint32(i))
	for _, key := range keys {
		b = append(b, key.key...)
	}
	return b
}
