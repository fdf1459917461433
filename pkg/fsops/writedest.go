package fsops

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// followTo returns the file that path leads to, with every symbolic link on the way
// resolved, so that two names of one file give the same result. The file itself
// need not exist, but its directory must; with parents the directory is made. Links
// that never end are an error of class ELOOP.
func (f *FS) followTo(path string, parents bool) (string, error) {
	for range maxSymlinks {
		dir, base := splitPath(path)
		dir, err := f.realDir(dir, parents)
		if err != nil {
			return "", err
		}
		path = dir + string(filepath.Separator) + base
		info, err := os.Lstat(path)
		switch {
		case os.IsNotExist(err):
			return filepath.Clean(path), nil
		case err != nil:
			return "", err
		case info.Mode().Type() != fs.ModeSymlink:
			return filepath.Clean(path), nil
		}
		link, err := os.Readlink(path)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(link) {
			// Not filepath.Join: "a/.." is not "." if a is a link.
			link = dir + string(filepath.Separator) + link
		}
		path = link
	}
	return "", syscall.ELOOP
}

// splitPath is filepath.Split without trailing separators.
func splitPath(path string) (dir, base string) {
	dir, base = filepath.Split(trimSeparators(path))
	return trimSeparators(dir), base
}

func trimSeparators(path string) string {
	trimmed := strings.TrimRight(path, string(filepath.Separator))
	if trimmed == filepath.VolumeName(path) {
		return path // the root
	}
	return trimmed
}

// realDir returns dir without symbolic links, after making it if asked to.
func (f *FS) realDir(dir string, create bool) (string, error) {
	if create {
		if err := f.makeParents(dir, fs.ModePerm); err != nil {
			return "", err
		}
	}
	held, err := holdDir(dir)
	if err != nil {
		return "", err
	}
	defer held.Close()
	if !hasDescriptorPaths() {
		return filepath.EvalSymlinks(dir)
	}
	return realPathOf(held)
}
