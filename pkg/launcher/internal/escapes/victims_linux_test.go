//go:build linux && !race

package escapes_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"
)

// makeVictims makes a directory for each of these tries, in which it may change something. It returns where
// they are.
func (e *escapee) makeVictims(of string, tries []string) (string, error) {
	all := filepath.Join(e.home(), "victims", of)
	for _, name := range tries {
		dir := filepath.Join(all, name)
		err := errors.Join(os.MkdirAll(filepath.Join(dir, "d"), 0o700), os.Mkdir(filepath.Join(dir, "empty"), 0o700), unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
		for _, file := range []string{"f", "d/g"} {
			err = errors.Join(err, os.WriteFile(filepath.Join(dir, file), []byte("before"), 0o600))
		}
		if err := errors.Join(err, unix.Setxattr(filepath.Join(dir, "f"), "user.old", []byte("x"), 0)); err != nil {
			return "", err
		}
		// Somebody reads from the pipe.
		fifo, err := os.OpenFile(filepath.Join(dir, "fifo"), os.O_RDWR|unix.O_NONBLOCK, 0)
		if err != nil {
			return "", err
		}
		e.fifos = append(e.fifos, fifo)
	}
	var err error
	e.victims = all
	e.before, err = snapshots(all)
	return all, err
}

// changing returns the names of those commands' tries that change files.
func (e *escapee) changing() (names []string, err error) {
	text, err := os.ReadFile(e.path("escape/files.py"))
	for _, match := range regexp.MustCompile(`changing\("([^"]+)"\)`).FindAllSubmatch(text, -1) {
		names = append(names, string(match[1]))
	}
	return names, err
}

// changes returns the names of tries whose directories are not as they were.
func (e *escapee) changes() (names []string, err error) {
	after, err := snapshots(e.victims)
	for name, is := range after {
		if is != e.before[name] {
			names = append(names, name)
		}
	}
	for name := range e.before {
		if _, ok := after[name]; !ok {
			names = append(names, name)
		}
	}
	return names, err
}

// snapshots returns all that can be seen of each directory in one. Whatever changes a file changes its ctime.
func snapshots(dir string) (map[string]string, error) {
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		rest, err := filepath.Rel(dir, path)
		name, _, _ := strings.Cut(rest, "/")
		all[name] += fmt.Sprintln(rest, st.Mode, st.Ino, st.Size, st.Ctim, st.Mtim)
		return err
	})
	return all, err
}
