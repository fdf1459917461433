package holes

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// What Encode has written of a file comes back, at its place.
func TestFileWithHolesComesBack(t *testing.T) {
	dir := t.TempDir()
	content := make([]byte, 3000)
	copy(content[10:], "first")
	copy(content[2000:], "second")
	if err := os.WriteFile(filepath.Join(dir, "from"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	from, err := os.Open(filepath.Join(dir, "from"))
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := os.Create(filepath.Join(dir, "to"))
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	var sparse bytes.Buffer
	if err := errors.Join(Encode(&sparse, from, []Extent{{10, 5}, {2000, 6}}, make([]byte, 4)), to.Truncate(3000)); err != nil {
		t.Fatal(err)
	}
	// byte by byte, so that each header and each extent is cut
	d := NewDecoder(to, 3000)
	for b := range slices.Chunk(sparse.Bytes(), 1) {
		if _, err := d.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(to.Name()); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%q, %v", got, err)
	}
}

// Whatever is in the store: a file with holes stays within its size.
func FuzzDecoder(f *testing.F) {
	var sparse bytes.Buffer
	file, err := os.Open(os.Args[0])
	if err == nil {
		err = Encode(&sparse, file, []Extent{{0, 10}, {100, 5}}, make([]byte, 100))
	}
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sparse.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		const size = 1000
		file, err := os.Create(filepath.Join(t.TempDir(), "f"))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		r := NewDecoder(file, size)
		_, _ = r.Write(b)
		if info, err := file.Stat(); err != nil || info.Size() > size {
			t.Errorf("the file has %d bytes, %v", info.Size(), err)
		}
	})
}
