package isolate

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podagent/podagent/cmd/podagent/internal/landlock"
)

// View is what a sandbox has of its machine's file system. There is nothing else in it: no home of the
// user, no sockets of other programs, no state of other sandboxes.
type View struct {
	// Workdir, Home and Temp are absolute paths of directories that are the sandbox's own.
	Workdir, Home, Temp string
	// Checkpoints, if not empty, is the absolute path of a directory that the agent alone has, and not its commands.
	Checkpoints string
	// Readable are absolute paths that it can read, besides those of the system.
	Readable []string
	// Hidden are directories that are not there, even where they lie in paths of the system, such as a home below
	// /opt: absolute paths without symbolic links. Those of the fields above that lie in a hidden directory are
	// there all the same.
	Hidden []string
	// Links are absolute paths that are there as symbolic links to what they lead to, if the sandbox has that.
	Links []string
	// Ephemeral, if not 0, has the sandbox's own directories in memory, up to so many bytes together. Their files
	// go with the program, and the directories of the machine stay empty. Only namespaces can do this.
	Ephemeral int64
}

// systemPaths are those of the system's programs and their configuration. Those that are missing are
// left out.
var systemPaths = []string{
	"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/usr", "/etc", "/opt", "/nix/store", "/gnu/store",
	"/var/lib/dpkg", "/sys",
}

// devices are those that every program may expect.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}

// terminals are what makes terminals, and those that it has made.
var terminals = []string{"/dev/ptmx", "/dev/pts"}

// isSystems reports whether a path is one of the system's, which no sandbox can put anything in place of. Where
// it is missing, sandboxes do without.
func isSystems(path string) bool {
	return slices.Contains(systemPaths, path) || slices.Contains(devices, path) || slices.Contains(terminals, path)
}

// find returns where a path of a view is, without symbolic links. Systems have some in their own paths, such as
// /dev/ptmx in containers, which names pts/ptmx; those in other paths somebody may have put there, and they are
// not followed. One of the system's directories may be a link as a whole, which the view has as a link.
func find(path string) (at string, link bool, err error) {
	info, err := os.Lstat(path)
	if err != nil || !isSystems(path) {
		return path, false, err
	}
	if info.Mode().Type() == fs.ModeSymlink && slices.Contains(systemPaths, path) {
		return path, true, nil
	}
	at, err = filepath.EvalSymlinks(path)
	return at, false, err
}

// entries returns what the view has, without /proc and the terminals, parents before what is below them.
func (v View) entries() []landlock.File {
	var list []landlock.File
	add := func(access landlock.Access, paths ...string) {
		for _, path := range paths {
			list = append(list, landlock.File{Path: filepath.Clean(path), Access: access})
		}
	}
	for _, path := range systemPaths {
		if !v.hides(path) {
			add(landlock.Readable, path)
		}
	}
	add(landlock.Readable, v.Readable...)
	add(landlock.Device, devices...)
	add(landlock.Writable, v.Workdir, v.Home, v.Temp)
	slices.SortStableFunc(list, func(a, b landlock.File) int { return strings.Compare(a.Path, b.Path) })
	return list
}

// hides reports whether a path is in a hidden directory.
func (v View) hides(path string) bool {
	return slices.ContainsFunc(v.Hidden, func(dir string) bool { return isOrBelow(path, dir) })
}

// hiddenIn returns the hidden directories below a path that are there.
func (v View) hiddenIn(path string) (list []string) {
	for _, dir := range v.Hidden {
		dir = filepath.Clean(dir)
		if _, err := os.Lstat(dir); isOrBelow(dir, path) && dir != filepath.Clean(path) && !errors.Is(err, fs.ErrNotExist) {
			list = append(list, dir)
		}
	}
	return list
}

// masked returns the hidden directories below what can be read.
func (v View) masked() (list []string) {
	for _, e := range v.entries() {
		if e.Access != landlock.Readable {
			continue
		}
		for _, dir := range v.hiddenIn(e.Path) {
			if !slices.Contains(list, dir) {
				list = append(list, dir)
			}
		}
	}
	return list
}

// secretDir has secrets of the machine in it, such as passwords and private keys.
const secretDir = "/etc"

// secrets returns the paths below a directory that only their owner, or a group, may read. For root the
// kernel keeps no others, so that the view must. What cannot be looked at is a secret.
func secrets(dir string) (paths []string) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil { // of reading a directory
			paths = append(paths, path)
			return nil
		}
		info, err := d.Info()
		switch {
		case err != nil || d.Type() == fs.ModeSymlink:
		case d.IsDir() && info.Mode().Perm()&0o005 != 0o005:
			paths = append(paths, path)
			return fs.SkipDir
		case !d.IsDir() && info.Mode().Perm()&0o004 == 0:
			paths = append(paths, path)
		}
		return nil
	})
	return paths
}

// hidesSecrets reports whether the view must hide what other users may not read.
func hidesSecrets() bool { return os.Geteuid() == 0 }
