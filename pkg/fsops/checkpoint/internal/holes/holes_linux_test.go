package holes

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// Whatever is in the store: a file with holes stays within its size.
func FuzzReader(f *testing.F) {
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
