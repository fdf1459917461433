package ignore

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	// FileName is the name of git's files of rules.
	FileName = ".gitignore"
	// GitDir is the name of the directory that holds a git repository, or of the
	// file in its place that names one.
	GitDir = ".git"
)

// Files tells which of the files that matter for rules a directory has.
type Files uint8

const (
	hasGit Files = 1 << iota // which makes it the root of a repository
	hasGitignore
	hasIgnore
	hasRgignore

	gitFiles = hasGit | hasGitignore
	// AllFiles is for a directory of which nothing is known.
	AllFiles = gitFiles | hasIgnore | hasRgignore
)

// ruleFiles are the files of rules. git does not follow a symbolic link in
// place of its own, which could lead anywhere; ripgrep does.
var ruleFiles = [...]struct {
	name string
	bit  Files
	kind kind
	stat func(string) (fs.FileInfo, error)
}{
	{FileName, hasGitignore, gitignoreKind, os.Lstat},
	{".ignore", hasIgnore, ignoreKind, os.Stat},
	{".rgignore", hasRgignore, rgignoreKind, os.Stat},
}

// FileOf returns which of the files has this name, 0 if none.
func FileOf(name string) Files {
	if name == "" || name[0] != '.' {
		return 0
	}
	if name == GitDir {
		return hasGit
	}
	for _, file := range ruleFiles {
		if name == file.name {
			return file.bit
		}
	}
	return 0
}

// load reads a file of rules. A file that is not regular has none.
func load(path string, stat func(string) (fs.FileInfo, error)) (Rules, error) {
	text, err := readFile(path, stat)
	if err != nil || text == nil {
		return Rules{}, err
	}
	return Parse(text), nil
}

// readFile reads a regular file, if there is one.
func readFile(path string, stat func(string) (fs.FileInfo, error)) ([]byte, error) {
	info, err := stat(path)
	var text []byte
	switch {
	case err != nil || !info.Mode().IsRegular():
	case info.Size() > maxFile:
		return nil, &fs.PathError{Op: "read", Path: path, Err: syscall.EFBIG}
	default:
		text, err = readRegular(path)
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		err = nil
	}
	return text, err
}

// readRegular reads up to maxFile of a file that was regular a moment ago. It never
// waits, even if another file has taken its place.
func readRegular(path string) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	// Reads that could wait know a deadline: those of a FIFO, and of the few regular
	// files under /proc that are streams.
	_ = file.SetReadDeadline(time.Unix(1, 0))
	return io.ReadAll(io.LimitReader(file, maxFile))
}

// ErrorFile returns the path from the directory dir, with slashes between its
// parts, of the file that an error of [Open], [Dir.Child] or [Dir.Enter] is about.
func ErrorFile(dir string, err error) string {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		if rel, err := filepath.Rel(dir, pathErr.Path); err == nil {
			return filepath.ToSlash(rel)
		}
	}
	return FileName
}
