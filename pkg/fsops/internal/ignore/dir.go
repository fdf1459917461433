package ignore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// FileName is the name of the files that hold the rules.
const FileName = ".gitignore"

// maxFile bounds the size of a file of rules: git itself reads up to 100 MiB,
// and no list that anybody wrote comes near a megabyte.
const maxFile = 16 << 20

// Dir is a directory in a walk, with the rules that hold in it: those of its
// own .gitignore file, of its parents' up to the root of the repository, and
// of the repository's info/exclude file. A Dir does not change, and may be
// used concurrently.
type Dir struct {
	parent *Dir // nil at the top
	path   string
	name   string // as it is called in parent
	rules  Rules
	// exclude are the rules of info/exclude, which have the least
	// precedence; only a repository's root has them.
	exclude Rules
}

// Open returns the Dir of an absolute path. The rules of its parents hold too,
// up to the root of the git repository that it lies in; outside of any, up to
// the directory top if it lies in that.
//
// If a file of rules could not be read, a [*fs.PathError] says so, and the Dir
// is that without those rules.
func Open(path, top string) (*Dir, error) {
	path = filepath.Clean(path)
	first := firstDir(path, filepath.Clean(top))
	d, err := enter(nil, first, "")
	rest := strings.Trim(filepath.ToSlash(strings.TrimPrefix(path, first)), "/")
	if rest == "" {
		return d, err
	}
	for name := range strings.SplitSeq(rest, "/") {
		child, childErr := d.Child(name)
		if d = child; err == nil {
			err = childErr
		}
	}
	return d, err
}

// firstDir returns the outermost directory whose rules hold in path.
func firstDir(path, top string) string {
	for dir := path; ; dir = filepath.Dir(dir) {
		if isRepository(dir) {
			return dir
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	if rest, ok := strings.CutPrefix(path, top); ok && (rest == "" || os.IsPathSeparator(rest[0])) {
		return top
	}
	return path
}

// Child returns the directory of that name in d. Its error is as in [Open].
func (d *Dir) Child(name string) (*Dir, error) {
	return enter(d, filepath.Join(d.path, name), name)
}

func enter(parent *Dir, path, name string) (*Dir, error) {
	d := &Dir{parent: parent, path: path, name: name}
	var err, excludeErr error
	if isRepository(path) {
		// A repository within another is none of the outer one's business.
		d.parent = nil
		d.exclude, excludeErr = load(filepath.Join(path, ".git", "info", "exclude"), os.Stat)
	}
	// git does not follow a symbolic link here, which could lead anywhere.
	d.rules, err = load(filepath.Join(path, FileName), os.Lstat)
	if err == nil {
		err = excludeErr
	}
	return d, err
}

func isRepository(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, ".git"))
	return err == nil
}

// load reads a file of rules; what is no regular file has none.
func load(path string, stat func(string) (fs.FileInfo, error)) (Rules, error) {
	info, err := stat(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return Rules{}, nil
	}
	if err != nil || !info.Mode().IsRegular() {
		return Rules{}, err
	}
	if info.Size() > maxFile {
		return Rules{}, &fs.PathError{Op: "open", Path: path, Err: syscall.EFBIG}
	}
	text, err := os.ReadFile(path)
	return Parse(text), err
}

// Ignored reports whether git ignores the file of that name in d, given that
// it does not ignore d itself.
func (d *Dir) Ignored(name string, isDir bool) bool {
	path := name
	for dir := d; ; dir = dir.parent {
		if !dir.rules.Empty() {
			if v := dir.rules.Match(path, isDir); v != Unknown {
				return v == Ignore
			}
		}
		if dir.parent == nil {
			return dir.exclude.Match(path, isDir) == Ignore
		}
		path = dir.name + "/" + path
	}
}
