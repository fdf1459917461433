//go:build !race

package sshserver_test

import (
	"bytes"
	"errors"
	"os"
	"testing"
)

// OpenSSH's scp writes so, and then sets the length.
func TestAFileThatExistsIsReplacedByOneOfAnyLength(t *testing.T) {
	p := newPlace(t)
	c := p.sftpOf(t)
	for _, size := range []int{257 << 20, 100, 0} { // the first is longer than what is changed in place
		want := make([]byte, size)
		copy(want, content(100))
		if err := p.WriteFile(t.Context(), "f", content(200), 0); err != nil {
			t.Fatal(err)
		}
		f, err := c.OpenFile("f", os.O_WRONLY)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.ReadFrom(bytes.NewReader(want))
		if err = errors.Join(err, f.Truncate(int64(size)), f.Close()); err != nil {
			t.Errorf("%d bytes: %v", size, err)
		}
		p.has(t, "f", want)
	}
}
