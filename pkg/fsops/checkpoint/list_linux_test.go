package checkpoint

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// Whoever can write to the store can make more manifests than anybody waits for.
func TestListEndsWithItsContext(t *testing.T) {
	_, s := openForForgery(t)
	if _, err := s.Create(t.Context(), CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if list, err := s.List(t.Context()); err != nil || len(list) != 1 {
		t.Fatalf("%d checkpoints, %v", len(list), err)
	}
	if list, err := s.List(&endsSoon{t.Context(), 0}); !errors.Is(err, context.Canceled) {
		t.Errorf("%d checkpoints, %v", len(list), err)
	}
}

// A manifest is all of its file. One with more behind it was forged: zeros, for example, which take no room in a sparse file.
func TestManifestWithMoreBehindItIsNone(t *testing.T) {
	_, s := openForForgery(t)
	c, err := s.Create(t.Context(), CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(s.manifestPath(c.ID))
	if err != nil {
		t.Fatal(err)
	}
	for name, rest := range map[string][]byte{"zeros": make([]byte, 1<<10), "another one": whole} {
		text := bytes.Join([][]byte{whole, rest}, nil)
		id := ID(Hash(sha256.Sum256(text)).String())
		if _, err := decodeManifest(id, text); !errors.Is(err, ErrCorrupt) {
			t.Errorf("with %s behind it: %v", name, err)
		}
		if err := os.WriteFile(filepath.Join(s.dir, manifestsDir, string(id)), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if list, err := s.List(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("%d checkpoints, %v", len(list), err)
	}
}
