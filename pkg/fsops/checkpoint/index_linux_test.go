package checkpoint

import (
	"bytes"
	"testing"
)

// Whatever is in the store: what is read as an index is what would be written.
func FuzzIndex(f *testing.F) {
	f.Add((&index{boot: "b", records: []record{{inodeID: inodeID{1, 2}}}}).encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if x, err := decodeIndex(b); err == nil && !bytes.Equal(x.encode(), b) {
			t.Errorf("%q is another index", b)
		}
	})
}
