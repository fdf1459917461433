package ignore

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// repository makes d, which is at path, the root of a git repository, if it is one.
// The rules of an outer repository do not hold in it.
func (d *Dir) repository(path string) error {
	if _, err := os.Lstat(filepath.Join(path, GitDir)); err != nil {
		return nil
	}
	sources := *d.sources
	sources[gitignoreKind], sources[excludeKind], sources[userKind] = nil, nil, nil
	d.sources = &sources
	git := commonDir(path)
	rules, err := d.load(filepath.Join(git, "info", "exclude"), os.Stat)
	d.add(excludeKind, rules)
	rules, userErr := d.userRules(path, git)
	d.add(userKind, rules)
	return errors.Join(err, userErr)
}

// commonDir returns the directory that all work trees of the git repository at path
// share. In a linked work tree and in a submodule, .git is a file that names
// another directory (gitrepository-layout(5)).
func commonDir(path string) string {
	git := filepath.Join(path, GitDir)
	if target, ok := pointer(git, "gitdir: "); ok {
		git = join(path, target)
	}
	if target, ok := pointer(filepath.Join(git, "commondir"), ""); ok {
		git = join(git, target)
	}
	return git
}

// pointer returns the path that a file holds after a prefix, if it does.
func pointer(file, prefix string) (string, bool) {
	text, err := readFile(file, os.Stat)
	if err != nil {
		return "", false
	}
	path, ok := strings.CutPrefix(string(bytes.TrimRight(text, "\r\n")), prefix)
	return path, ok && path != ""
}

func join(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}
