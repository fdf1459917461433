package ignore

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/podagent/podagent/pkg/fsops/internal/opener"
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

// ruleFiles are the files of rules. git does not follow a symbolic link in place of its
// own file, since the link could lead anywhere; ripgrep does.
var ruleFiles = [...]struct {
	name string
	bit  Files
	kind kind
	stat statFunc
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

// A statFunc is [os.Stat], or [os.Lstat] for a file that may not be a symbolic link.
type statFunc func(path string) (fs.FileInfo, error)

// readFile reads a regular file, if there is one.
func readFile(path string, stat statFunc) ([]byte, error) {
	info, err := stat(path)
	var text []byte
	switch {
	case err != nil || !info.Mode().IsRegular():
	case info.Size() > maxFile:
		return nil, overBudget(path)
	default:
		text, err = readRegular(path)
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		err = nil
	}
	return text, err
}

func overBudget(path string) error { return &fs.PathError{Op: "read", Path: path, Err: errBudget} }

// readRegular reads a file that was regular a moment ago. It never waits, even if another
// file has taken its place, and fails if the file is larger than it seemed.
func readRegular(path string) ([]byte, error) {
	dir, name := filepath.Split(path)
	file, err := opener.OpenIn(dir, name, os.O_RDONLY|syscall.O_NONBLOCK)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer file.Close()
	// Reads that could wait know a deadline: those of a FIFO, and of the few regular
	// files under /proc that are streams.
	_ = file.SetReadDeadline(time.Unix(1, 0))
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = overBudget(path)
	}
	if err != nil {
		return nil, err
	}
	return text, nil
}

// Errors returns the errors of single files in an error of [Open], [Dir.Child] or
// [Dir.Enter].
func Errors(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, err := range joined.Unwrap() {
		all = append(all, Errors(err)...)
	}
	return all
}

// ErrorFile returns the path from the directory dir, with slashes between its
// parts, of the file that one of these errors is about.
func ErrorFile(dir string, err error) string {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		if rel, err := filepath.Rel(dir, pathErr.Path); err == nil {
			return filepath.ToSlash(rel)
		}
	}
	return FileName
}
