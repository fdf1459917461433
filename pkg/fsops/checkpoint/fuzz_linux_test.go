package checkpoint

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// Whatever is in the store: what is read as an object is what would be written, and a file with holes
// stays within its size.
func FuzzObjects(f *testing.F) {
	f.Add([]byte(treeHeader))
	f.Add(tree{
		{name: "d", kind: directory, mode: 0o755},
		{name: "f", kind: regular, size: 7, flags: holes},
		{name: "h", kind: hardLink, target: "d/f"},
		{name: "l", kind: symlink, target: "f"},
		{name: "p", kind: fifo, mtime: -1},
	}.encode(nil))
	var sparse bytes.Buffer
	file, err := os.Open(os.Args[0])
	if err == nil {
		err = writeSparse(&sparse, file, []extent{{0, 10}, {100, 5}}, make([]byte, 100))
	}
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sparse.Bytes())
	f.Add((&index{boot: "b", records: []record{{inodeID: inodeID{1, 2}}}}).encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if tree, err := decodeTree(b); err == nil && !bytes.Equal(tree.encode(nil), b) {
			t.Errorf("%q is another directory than %+v", b, tree)
		}
		if x, err := decodeIndex(b); err == nil && !bytes.Equal(x.encode(), b) {
			t.Errorf("%q is another index", b)
		}
		const size = 1000
		file, err := os.Create(filepath.Join(t.TempDir(), "f"))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		r := newSparseReader(file, size)
		_, _ = r.Write(b)
		if info, err := file.Stat(); err != nil || info.Size() > size {
			t.Errorf("the file has %d bytes, %v", info.Size(), err)
		}
	})
}
