package audit

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/podagent/podagent/pkg/fsops"
)

// LoadKey reads the key that signs logs: an Ed25519 key in PKCS#8, in PEM, which no other user of the
// machine may read.
func LoadKey(path string) (ed25519.PrivateKey, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the key of the audit log: %w", err)
	}
	if err := fsops.CheckPrivate(info); err != nil {
		return nil, fmt.Errorf("the key of the audit log in %s is not yours alone: %w: chmod 600 it, or make another", path, err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("%s: there is no PEM block", path)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s has a %T, and not an Ed25519 key", path, parsed)
	}
	return key, nil
}

// MakeKey makes a file with a key, unless there is one.
func MakeKey(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := makeKey(path); err != nil {
		return fmt.Errorf("cannot make a key for the audit log: %w", err)
	}
	return nil
}

func makeKey(path string) error {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".audit-key-") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	err = pem.Encode(f, &pem.Block{Type: "PRIVATE KEY", Bytes: der})
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return fsops.SyncDir(dir)
}

// FormatPublicKey returns the public half of a key as text.
func FormatPublicKey(key ed25519.PublicKey) string { return base64.StdEncoding.EncodeToString(key) }

// ParsePublicKey is the opposite of FormatPublicKey.
func ParsePublicKey(text string) (ed25519.PublicKey, error) {
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(key) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("%q is not a public key, which is %d bytes in base64", text, ed25519.PublicKeySize)
	}
	return key, nil
}
