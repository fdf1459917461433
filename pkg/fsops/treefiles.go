package fsops

import (
	"archive/tar"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// enter makes the missing parents of the entry, opens its directory, and returns the
// entry's base name. An operation on that name in the directory stays in the tree, since
// the root refuses links that lead out.
func (x *extractor) enter(name string) (*os.Root, string, error) {
	dir, base := path.Split(name)
	dir = path.Clean(dir)
	if x.parent != nil && x.parentName == dir {
		return x.parent, base, nil
	}
	x.leave()
	info, err := x.root.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err = x.makeParents(dir); err == nil {
			info, err = x.root.Stat(dir)
		}
	}
	if err != nil {
		return nil, "", err
	}
	if !info.IsDir() { // opening a FIFO would block
		return nil, "", syscall.ENOTDIR
	}
	if x.parent, err = x.root.OpenRoot(dir); err != nil {
		return nil, "", err
	}
	x.parentName = dir
	if holdsAll {
		err = x.holdParent()
	}
	if err != nil {
		x.leave()
	}
	return x.parent, base, err
}

// leave closes what enter opened.
func (x *extractor) leave() {
	if x.parent != nil {
		x.parent.Close()
	}
	if x.parentFile != nil {
		x.parentFile.Close()
	}
	x.parent, x.parentFile = nil, nil
}

// dir makes a directory, or takes the existing one. A link to a directory in the tree
// counts as one.
func (x *extractor) dir(name string, h *tar.Header) error {
	parent, base, err := x.enter(name)
	if err != nil {
		return err
	}
	err = x.change(base, fs.ModeDir, func() error {
		err := parent.Mkdir(base, 0o700)
		if errors.Is(err, fs.ErrExist) {
			err = x.existingDir(parent, name, base)
		}
		return err
	})
	if err != nil {
		return err
	}
	if _, known := x.dirs[name]; !known {
		err = x.size.addDir(name)
	}
	x.dirs[name] = dirMeta{mode: x.modeOf(h), time: h.ModTime}
	return err
}

func (x *extractor) existingDir(parent *os.Root, name, base string) error {
	info, err := x.root.Stat(name)
	switch {
	case err == nil && info.IsDir():
		if info.Mode().Perm()&0o300 == 0o300 {
			return nil
		}
		return x.chmod(name, info.Mode().Perm()|0o700) // until finishDirs
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := parent.Remove(base); err != nil {
		return err
	}
	return parent.Mkdir(base, 0o700)
}

// modeOf returns the mode that a file gets, without the set-id bits: an archive
// must not make a program run as another user.
func (x *extractor) modeOf(h *tar.Header) fs.FileMode {
	mode := fs.FileMode(h.Mode).Perm() &^ x.umask
	if h.Mode&tarSticky != 0 && h.Typeflag == tar.TypeDir {
		mode |= fs.ModeSticky
	}
	return mode
}

// symlink makes a symbolic link.
func (x *extractor) symlink(name, target string) error {
	if !x.opts.OutsideLinks {
		if err := x.checkLink(name, target); err != nil {
			return err
		}
	}
	parent, base, err := x.enter(name)
	if err != nil {
		return err
	}
	return x.change(base, fs.ModeSymlink, func() error {
		return putIn(parent, base, func(name string) error { return parent.Symlink(target, name) })
	})
}

// checkLink refuses a link that leads out of the tree. It looks only at the text of the
// target. That is right only if no link leads to the link's directory, and if no ".."
// comes after a name that may be a link.
func (x *extractor) checkLink(name, target string) error {
	up := 0 // how often the target may go up
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		info, err := x.root.Lstat(dir)
		if err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return fmt.Errorf("%w: a link in %q, itself a link, may lead anywhere", ErrUnsafeArchive, dir)
		}
		up++
	}
	slashed := filepath.ToSlash(target)
	for part := range strings.SplitSeq(slashed, "/") {
		switch part {
		case "", ".":
		case "..":
			up--
		default:
			up = min(up, 0)
		}
	}
	if up < 0 || path.IsAbs(slashed) || filepath.VolumeName(target) != "" {
		return fmt.Errorf("%w: it links to %q", ErrUnsafeArchive, target)
	}
	return nil
}

// hardLink makes a second name for a file that is in the tree. It refuses a link to
// a symbolic link, which might lead out from its new directory.
func (x *extractor) hardLink(name, target string) error {
	source, err := localName(target)
	if err != nil {
		return err
	}
	info, err := x.root.Lstat(source)
	if err != nil {
		return err
	}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("%w: it is a hard link to the symbolic link %q", ErrUnsafeArchive, target)
	case !info.Mode().IsRegular():
		return fmt.Errorf("hard link to %q: %w", target, ErrNotRegular)
	}
	if source == name {
		return nil
	}
	parent, base, err := x.enter(name)
	if err != nil {
		return err
	}
	var made string
	err = x.change(base, 0, func() error {
		return putIn(parent, base, func(linkName string) error {
			made = linkName
			return x.link(source, path.Join(path.Dir(name), linkName))
		})
	})
	if err != nil || made == base {
		return err
	}
	// If both names already were the same file, the rename did nothing.
	if err := parent.Remove(made); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
