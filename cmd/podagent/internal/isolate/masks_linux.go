package isolate

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// masks returns empty directories in place of the hidden ones that could be read. They can be changed until all
// that lies in them has its place.
func (v View) masks() (list []tree, err error) {
	for _, dir := range v.masked() {
		fd, err := emptyTree()
		if err != nil {
			return nil, &os.PathError{Op: "hide", Path: dir, Err: err}
		}
		list = append(list, tree{at: dir, fd: fd, dir: true, mask: true})
	}
	return list, nil
}

// emptyTree returns a directory in memory.
func emptyTree() (int, error) {
	memory, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, os.NewSyscallError("fsopen", err)
	}
	defer unix.Close(memory)
	for _, option := range strings.Split(rootSize, ",") {
		name, value, _ := strings.Cut(option, "=")
		if err := unix.FsconfigSetString(memory, name, value); err != nil {
			return -1, os.NewSyscallError("fsconfig", err)
		}
	}
	if err := unix.FsconfigCreate(memory); err != nil {
		return -1, os.NewSyscallError("fsconfig", err)
	}
	fd, err := unix.Fsmount(memory, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	return fd, os.NewSyscallError("fsmount", err)
}

// freezeMasks makes the masks read-only, and closes them.
func freezeMasks(trees []tree) error {
	for _, t := range trees {
		if !t.mask {
			continue
		}
		attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
		err := unix.MountSetattr(t.fd, "", unix.AT_EMPTY_PATH, &attr)
		unix.Close(t.fd)
		if err != nil {
			return &os.PathError{Op: "mount_setattr", Path: t.at, Err: err}
		}
	}
	return nil
}

// makeLinks makes the view's symbolic links where there is room for them. They lead to nothing that the view does not
// have. Where one cannot be made, such as in a directory of the system, the path that it would lead to has to do.
func (v View) makeLinks(root *os.Root) {
	for _, path := range v.Links {
		at := strings.TrimPrefix(filepath.Clean(path), "/")
		target, err := filepath.EvalSymlinks(path)
		if err == nil && target != filepath.Clean(path) && root.MkdirAll(filepath.Dir(at), 0o755) == nil {
			_ = root.Symlink(target, at)
		}
	}
}
