package proc

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// defaultPath is searched where the environment has no PATH.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// lookup finds a command as execvp does, but in the PATH and the directory of
// the spec and not in the agent's. The error is a [syscall.Errno]. A name with
// a slash is left to the kernel.
func (s *Spec) lookup(name string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	err := error(syscall.ENOENT)
	for _, dir := range filepath.SplitList(s.path()) {
		file := filepath.Join(dir, name)
		if !filepath.IsAbs(dir) {
			file = filepath.Join(s.Dir, dir, name)
		}
		switch found := executable(file); {
		case found == nil:
			return file, nil
		case errors.Is(found, syscall.EACCES):
			err = found
		}
	}
	return "", err
}

func (s *Spec) path() string {
	path := defaultPath
	for _, v := range s.Env {
		if p, ok := strings.CutPrefix(v, "PATH="); ok {
			path = p
		}
	}
	return path
}

func executable(file string) error {
	var st unix.Stat_t
	if err := unix.Stat(file, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return syscall.ENOENT
	}
	return unix.Access(file, unix.X_OK)
}

// startError says whether a start failed for the directory or for the command. The
// kernel reports both with the same errors, so it looks at the directory itself.
func (s *Spec) startError(name string, err error) error {
	if derr := enterable(s.Dir); derr != nil {
		return &fs.PathError{Op: "chdir", Path: s.Dir, Err: derr}
	}
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		err = pe.Err
	}
	return &fs.PathError{Op: "exec", Path: name, Err: err}
}

func enterable(dir string) error {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return syscall.ENOTDIR
	}
	return unix.Access(dir, unix.X_OK)
}
