package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// foundSecret is the result of a search that should have found nothing.
const foundSecret = "found a secret"

// authorizedKey returns a private key with the public half that the agent accepts,
// and a made-up private half. The public half is no secret: it is in the
// environment, where any process could read it.
func authorizedKey() (ed25519.PrivateKey, error) {
	public, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(os.Getenv("INTRUDER_KEY"), "ed25519:"))
	if err == nil && len(public) != ed25519.PublicKeySize {
		err = fmt.Errorf("INTRUDER_KEY has %d bytes", len(public))
	}
	return append(freshKey()[:ed25519.SeedSize:ed25519.SeedSize], public...), err
}

// secretIn returns the secret in data: the private key of one of the public keys,
// or any private key in PEM.
func secretIn(data []byte, publics []ed25519.PublicKey) string {
	for _, public := range publics {
		if seedOf(data, public) != nil {
			return foundSecret
		}
	}
	for begin := []byte("-----BEGIN "); ; {
		i := bytes.Index(data, begin)
		if i < 0 {
			return "nothing"
		}
		data = data[i:]
		if block, _ := pem.Decode(data); block != nil {
			if _, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
				return foundSecret
			}
		}
		data = data[len(begin):]
	}
}

// seedOf returns the private key of public if data has it in Go's format, with the
// seed before the public half.
func seedOf(data []byte, public ed25519.PublicKey) ed25519.PrivateKey {
	for at := 0; ; at++ {
		i := bytes.Index(data[at:], public)
		if i < 0 {
			return nil
		}
		if at += i; at < ed25519.SeedSize {
			continue
		}
		key := ed25519.NewKeyFromSeed(data[at-ed25519.SeedSize : at])
		if public.Equal(key.Public()) {
			return key
		}
	}
}

// tryFiles searches the visible files of the agent, and the places where pods have
// secrets.
func tryFiles(caller ed25519.PrivateKey) {
	publics := []ed25519.PublicKey{caller.Public().(ed25519.PublicKey)}
	for _, name := range []string{"environ", "cmdline", "exe"} {
		try("/proc/1/"+name, func(context.Context) string { return secretInFile("/proc/1/"+name, publics) })
	}
	try("/proc/1/fd", func(context.Context) string { return secretInOpenFiles(publics) })
	for _, dir := range []string{"/var/run/secrets", "/proc/1/root/var/run/secrets"} {
		try(dir, func(context.Context) string { return treeOf(dir) })
	}
}

// secretInOpenFiles returns the secret in one of the agent's open files.
func secretInOpenFiles(publics []ed25519.PublicKey) string {
	files, err := filepath.Glob("/proc/1/fd/*")
	if err != nil {
		return err.Error()
	}
	for _, name := range files {
		info, err := os.Stat(name)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		if found := secretInFile(name, publics); found == foundSecret {
			return found
		}
	}
	return "nothing"
}

func secretInFile(name string, publics []ed25519.PublicKey) string {
	data, err := os.ReadFile(name)
	if err != nil {
		return "unreadable: " + err.Error()
	}
	return secretIn(data, publics)
}

// treeOf returns all files below dir.
func treeOf(dir string) string {
	found := "nothing"
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			found = path
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "unreadable: " + err.Error()
	}
	return found
}
