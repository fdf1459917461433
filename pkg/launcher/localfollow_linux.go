package launcher

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// mostLinks is how many symbolic links a path may have, as Linux has it (path_resolution(7)).
const mostLinks = 40

// A pathWalk follows a path once, and checks it meanwhile: another sandbox may change it at any time.
type pathWalk struct {
	guard
	links   int    // how many there were
	planted string // the first link that code in an isolated sandbox may have made, out of what that can change
}

// follow returns an absolute path without symbolic links. Its end need not be there.
func (w *pathWalk) follow(path string) (string, error) {
	return w.from("/", strings.Split(filepath.Clean(path), "/"))
}

// from follows names from a directory, which has no links.
func (w *pathWalk) from(at string, names []string) (string, error) {
	for i, name := range names {
		switch name {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		info, err := os.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return filepath.Join(at, filepath.Join(names[i:]...)), nil
		case err != nil:
			return "", err
		case info.Mode()&fs.ModeSymlink == 0:
			at = next
		default:
			if at, err = w.through(at, next, info); err != nil {
				return "", err
			}
		}
	}
	return at, nil
}

// through follows a link in a directory.
func (w *pathWalk) through(dir, link string, info fs.FileInfo) (string, error) {
	if w.links++; w.links > mostLinks {
		return "", &fs.PathError{Op: "following", Path: link, Err: syscall.ELOOP}
	}
	target, err := os.Readlink(link)
	if err != nil {
		return "", err
	}
	from := dir
	if filepath.IsAbs(target) {
		from = "/"
	}
	to, err := w.from(from, strings.Split(target, "/"))
	if err == nil && w.planted == "" && !isOrBelow(to, dir) && isOwn(info) && w.refuses(dir, true) == "" {
		w.planted = link
	}
	return to, err
}

// isOwn reports whether a file is the user's, as all are that isolated sandboxes make.
func isOwn(info fs.FileInfo) bool {
	return int(info.Sys().(*syscall.Stat_t).Uid) == os.Geteuid()
}

// view returns what a path of an isolated sandbox leads to, or why the sandbox cannot have that.
func (g guard) view(path string, writable bool) (string, error) {
	w := pathWalk{guard: g}
	real, err := w.follow(path)
	if err != nil {
		return "", err
	}
	why := g.refuses(real, writable)
	if why == "" && w.planted != "" {
		why = fmt.Sprintf("the symbolic link %q leads out of its directory, and code in another sandbox may have made it: name %q, if you mean that", w.planted, real)
	}
	if why != "" {
		return "", &refusedPathError{path, why}
	}
	return real, nil
}

// A refusedPathError is why an isolated sandbox cannot have a path.
type refusedPathError struct{ path, why string }

func (e *refusedPathError) Error() string {
	return fmt.Sprintf("an isolated sandbox cannot have %q: %s", e.path, e.why)
}
