package launcher

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/podagent/podagent/pkg/fsops"
)

// Code at the level landlock cannot read or write the launcher's files, but it can change the modes of all that
// its user owns. What that takes from the launcher, the launcher takes back.

// regain lets this user get at a file again, with these permissions at least. It leaves alone what is missing, is a
// link, or is another user's.
func regain(path string, atLeast fs.FileMode) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if mode := info.Mode(); mode.Type() == fs.ModeSymlink || mode.Perm()&atLeast == atLeast || !isMine(info) {
		return nil
	}
	return os.Chmod(path, info.Mode().Perm()|atLeast)
}

// isMine reports whether a file belongs to this user.
func isMine(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int64(st.Uid) == int64(os.Geteuid())
}

// regainDirs lets this user get at the directory of all sandboxes again, and at the one that it is in. What does not
// succeed shows when they are used.
func regainDirs(state string) {
	_ = regain(filepath.Dir(state), 0o700)
	_ = regain(state, 0o700)
}

// regain lets this user get at the sandbox's files again.
func (p place) regain() error {
	err := regain(p.dir, 0o700)
	for _, name := range []string{recordFile, socketFile, logFile} {
		err = errors.Join(err, regain(p.path(name), 0o600))
	}
	for _, name := range []string{workspace, ownHome, ownTemp} {
		err = errors.Join(err, regain(p.path(name), 0o700))
	}
	return err
}

// regainState makes the state directory this user's alone again, if it is this user's with all that is in it, and
// has sandboxes: then it was this before, and nobody has put anything there since.
func regainState(dir string, info fs.FileInfo) error {
	if !isMine(info) {
		return nil
	}
	if info.Mode().Perm()&0o700 != 0o700 {
		return os.Chmod(dir, info.Mode().Perm()|0o700)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	sandboxes := 0
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && !isMine(info) {
			return fmt.Errorf("%s belongs to somebody else", filepath.Join(dir, e.Name()))
		}
		if e.IsDir() {
			sandboxes++
		}
	}
	if sandboxes == 0 {
		return nil
	}
	return os.Chmod(dir, 0o700)
}

// makePrivate creates a directory that only this user can enter, or checks that it
// is one.
func makePrivate(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	err = fsops.CheckPrivate(info)
	if err == nil && info.Mode().Perm()&0o700 == 0o700 {
		return nil
	}
	if regained := regainState(dir, info); regained != nil {
		err = errors.Join(err, regained)
	} else if info, err = os.Stat(dir); err == nil {
		err = fsops.CheckPrivate(info)
	}
	if err != nil {
		return fmt.Errorf("state directory %s is not yours alone: %w: give one of your own with 0700", dir, err)
	}
	return nil
}
