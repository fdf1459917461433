//go:build !linux

package opener

import (
	"io/fs"
	"os"
)

// Open opens a file, and describes it.
func Open(path string, flags int) (*os.File, fs.FileInfo, error) {
	file, err := os.OpenFile(path, flags, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	return file, info, nil
}

// OpenIn is Open for the path of a directory that may lead anywhere, and a name in it.
func OpenIn(dir, name string, flags int) (*os.File, error) {
	return os.OpenFile(dir+string(os.PathSeparator)+name, flags, 0)
}

// Stat describes a file, following symbolic links.
func Stat(path string) (fs.FileInfo, error) { return os.Stat(path) }

// Lstat describes a file, and says what a symbolic link names.
func Lstat(path string) (info fs.FileInfo, target string, err error) {
	info, err = os.Lstat(path)
	if err == nil && info.Mode().Type() == fs.ModeSymlink {
		target, err = os.Readlink(path)
	}
	return info, target, err
}

// Readlink returns what a symbolic link names.
func Readlink(path string) (string, error) { return os.Readlink(path) }

// MayChange returns nil.
func MayChange(*os.File) error { return nil }
