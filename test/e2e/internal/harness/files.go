package harness

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
)

// Put writes a file and creates its parents.
func Put(t *testing.T, s *launcher.Sandbox, name, content string) {
	t.Helper()
	if _, err := s.Write(t.Context(), name, strings.NewReader(content), fsops.WriteOptions{Parents: true}); err != nil {
		t.Fatal(err)
	}
}

// Get returns the content of a file.
func Get(t *testing.T, s *launcher.Sandbox, name string) string {
	t.Helper()
	data, err := s.ReadFile(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Names lists the names in a directory.
func Names(t *testing.T, s *launcher.Sandbox, dir string) []string {
	t.Helper()
	list := []string{}
	for attr, err := range s.List(t.Context(), dir, fsops.ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, filepath.Base(attr.Path))
	}
	return list
}

// Pattern yields size bytes with all byte values. They do not repeat within a
// chunk, and depend only on the seed.
func Pattern(size int64, seed uint64) io.Reader {
	var key [32]byte
	key[0], key[1] = byte(seed), byte(seed>>8)
	return io.LimitReader(rand.NewChaCha8(key), size)
}

// SHA returns the SHA-256 of a reader's content, and its size.
func SHA(t *testing.T, r io.Reader) (string, int64) {
	t.Helper()
	h := sha256.New()
	n, err := io.Copy(h, r)
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(h.Sum(nil)), n
}

// Download compares the content of name with a [Pattern].
func Download(t *testing.T, s *launcher.Sandbox, name string, size int64, seed uint64) {
	t.Helper()
	f, err := s.Open(t.Context(), name)
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	got, n := SHA(t, f)
	if want, _ := SHA(t, Pattern(size, seed)); got != want || n != size {
		t.Errorf("%s: %d bytes with SHA-256 %s, want %d with %s", name, n, got, size, want)
	}
}

// Intact checks that dir has only this file, with this content.
func Intact(t *testing.T, s *launcher.Sandbox, dir, file, content string) {
	t.Helper()
	if got := Get(t, s, dir+"/"+file); got != content {
		t.Errorf("the content is %.40q, want %q", got, content)
	}
	if got := Names(t, s, dir); !slices.Equal(got, []string{file}) {
		t.Errorf("the directory has %q, want %q alone", got, file)
	}
}
