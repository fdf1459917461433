package fsops

import (
	"fmt"
	"io/fs"
)

// TypeName names the type of a file: "file", "directory", "symlink", "fifo",
// "socket" or "device".
func TypeName(mode fs.FileMode) string {
	switch mode.Type() {
	case 0:
		return "file"
	case fs.ModeDir:
		return "directory"
	case fs.ModeSymlink:
		return "symlink"
	case fs.ModeNamedPipe:
		return "fifo"
	case fs.ModeSocket:
		return "socket"
	}
	return "device"
}

// OctalMode returns the permission bits in octal, including the set-id and sticky bits
// in chmod(1)'s form: "0644".
func OctalMode(mode fs.FileMode) string {
	bits := mode.Perm()
	for _, special := range []struct{ mode, bit fs.FileMode }{
		{fs.ModeSetuid, 0o4000},
		{fs.ModeSetgid, 0o2000},
		{fs.ModeSticky, 0o1000},
	} {
		if mode&special.mode != 0 {
			bits |= special.bit
		}
	}
	return fmt.Sprintf("%04o", bits)
}
