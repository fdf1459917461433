//go:build !linux

package walk

import (
	"io/fs"
	"os"
	"path/filepath"
)

// A handle is an open directory: its path, and what it is listed by.
type handle struct {
	path string
	file *os.File
}

// noHandle is no open directory.
var noHandle handle

// fileID tells a directory from all others.
type fileID struct{ path string }

// openDirectory is 0: nothing keeps a file from being opened as a directory.
const openDirectory = 0

// openRoot opens the directory at path.
func openRoot(path string) (handle, error) {
	file, err := os.Open(path)
	return handle{path, file}, err
}

// openDir opens the directory called name in h.
func (h handle) openDir(name string, follow bool) (handle, error) {
	path := filepath.Join(h.path, name)
	stat := os.Lstat
	if follow {
		stat = os.Stat
	}
	info, err := stat(path)
	if err == nil && !info.IsDir() {
		err = fs.ErrNotExist // replaced by something else
	}
	if err != nil {
		return noHandle, err
	}
	return openRoot(path)
}

// openPath opens the directory that has the path below h.
func (h handle) openPath(path string, follow bool) (handle, error) {
	return h.openDir(filepath.FromSlash(path), follow)
}

// alias returns a path of the directory.
func (h handle) alias() string { return h.path }

func (h handle) close() {
	if h.file != nil {
		_ = h.file.Close()
	}
}

func (h handle) id() (fileID, error) {
	path, err := filepath.EvalSymlinks(h.path)
	return fileID{path}, err
}

func (h handle) stat(name string, follow bool) (Attr, error) {
	stat := os.Lstat
	if follow {
		stat = os.Stat
	}
	info, err := stat(filepath.Join(h.path, name))
	if err != nil {
		return Attr{}, err
	}
	return Attr{Type: info.Mode().Type(), ModTime: info.ModTime()}, nil
}

// A lister reads directories.
type lister struct{}

// next appends some entries of h, and returns io.EOF when there are no more.
func (*lister) next(h handle, batch []dirent) ([]dirent, error) {
	entries, err := h.file.ReadDir(batchEntries)
	for _, e := range entries {
		batch = append(batch, dirent{name: e.Name(), typ: e.Type()})
	}
	return batch, err
}

// A File is a regular file that is open for reading.
type File struct {
	*os.File
	size int64
}

func (h handle) openFile(name string, follow bool) (File, error) {
	attr, err := h.stat(name, follow)
	if err != nil {
		return File{}, err
	}
	if attr.Type != 0 {
		return File{}, ErrNotRegular
	}
	file, err := os.Open(filepath.Join(h.path, name))
	if err != nil {
		return File{}, err
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return File{}, err
	}
	return File{file, info.Size()}, nil
}

// Size returns the size that the file had when it was opened, in bytes.
func (f File) Size() int64 { return f.size }
