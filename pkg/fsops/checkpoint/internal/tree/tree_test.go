package tree

import (
	"bytes"
	"testing"
)

// Whatever is in the store: what is read as a directory is what would be written.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(header))
	f.Add(Entries{
		{Name: "d", Kind: Directory, Mode: 0o755},
		{Name: "f", Kind: Regular, Size: 7, Flags: Holes},
		{Name: "h", Kind: HardLink, Target: "d/f"},
		{Name: "l", Kind: Symlink, Target: "f"},
		{Name: "p", Kind: FIFO, MTime: -1},
	}.Encode(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if tree, err := Decode(b); err == nil && !bytes.Equal(tree.Encode(nil), b) {
			t.Errorf("%q is another directory than %+v", b, tree)
		}
	})
}
