package fsops

import (
	"io/fs"
	"testing"
)

func TestTypeNames(t *testing.T) {
	for mode, want := range map[fs.FileMode]string{
		0o644:                  "file",
		fs.ModeDir | 0o755:     "directory",
		fs.ModeSymlink:         "symlink",
		fs.ModeNamedPipe:       "fifo",
		fs.ModeSocket:          "socket",
		fs.ModeDevice:          "device",
		fs.ModeDevice | 0o2000: "device",
	} {
		if got := TypeName(mode); got != want {
			t.Errorf("TypeName(%v) = %q, want %q", mode, got, want)
		}
	}
}
