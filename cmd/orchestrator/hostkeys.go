package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/crypto/ssh"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/agentsandbox"
)

// hostKeys returns the host keys of SSH servers for a launcher's sandboxes, the one to use first.
// They come from the identity that the agents accept. Where there is none, the user has a key for
// all sandboxes.
func hostKeys(ctx context.Context, l launcher.Launcher) ([]ssh.Signer, error) {
	switch l := l.(type) {
	case *launcher.Kubernetes:
		return signersOf(l.HostKeys(ctx))
	case *agentsandbox.Launcher:
		return signersOf(l.Cluster.HostKeys(ctx))
	}
	return ownHostKey()
}

func signersOf(derived []ed25519.PrivateKey, err error) ([]ssh.Signer, error) {
	if err != nil {
		return nil, err
	}
	var keys []ssh.Signer
	for _, k := range derived {
		signer, err := ssh.NewSignerFromSigner(k)
		if err != nil {
			return nil, err
		}
		keys = append(keys, signer)
	}
	return keys, nil
}

// ownHostKey returns the user's own host key, which is made on first use.
func ownHostKey() ([]ssh.Signer, error) {
	dir, err := sshDir()
	if err != nil {
		return nil, local(err)
	}
	path := filepath.Join(dir, "host-key.pem")
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = makeHostKey(path); err == nil {
			data, err = os.ReadFile(path)
		}
	}
	if err == nil {
		err = checkPrivate("the host key", path)
	}
	if err != nil {
		return nil, local(err)
	}
	key, err := ssh.ParsePrivateKey(data)
	if err != nil {
		return nil, local(fmt.Errorf("%s: %w", path, err))
	}
	return []ssh.Signer{key}, nil
}

// makeHostKey makes a key, unless there is one by then: if several programs do so at once, all use
// the first.
func makeHostKey(path string) error {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	block, err := ssh.MarshalPrivateKey(key, "podagent")
	if err != nil {
		return err
	}
	err = putFile(path, pem.EncodeToMemory(block), os.Link)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// sshDir returns the directory of the host key and the known hosts, which is made if it is missing.
func sshDir() (string, error) {
	dir, err := (&launcher.Local{}).Dir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(filepath.Dir(dir), "ssh")
	return dir, os.MkdirAll(dir, 0o700)
}

// knownHost is the name of the host keys of all sandboxes: HostKeyAlias has ssh look for it.
const knownHost = "podagent"

// writeKnownHosts writes the file with the host keys for ssh, unless it has them.
func writeKnownHosts(path string, keys []ssh.Signer) error {
	var text bytes.Buffer
	for _, k := range keys {
		fmt.Fprintf(&text, "%s %s", knownHost, ssh.MarshalAuthorizedKey(k.PublicKey()))
	}
	if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, text.Bytes()) {
		return nil
	}
	return local(putFile(path, text.Bytes(), os.Rename))
}

// putFile writes a file that only its owner can read, and lets put move it to path.
func putFile(path string, data []byte, put func(from, to string) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".podagent-") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return put(f.Name(), path)
}
