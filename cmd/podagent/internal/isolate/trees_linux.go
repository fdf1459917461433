package isolate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/cmd/podagent/internal/landlock"
)

// tree is a part of the machine's file system on its way into the root.
type tree struct {
	at   string // its path in the root
	fd   int    // of a detached copy
	dir  bool
	link string // what it is a symbolic link to, without a copy
	mask bool   // whether it is an empty directory in place of a hidden one; then fd stays open when it is attached
}

// trees takes copies of all that the view has, with the rights that it has there.
func (v View) trees() (list []tree, err error) {
	own, err := v.ownDirs()
	if err != nil {
		return nil, err
	}
	for _, at := range []string{"/tmp", "/var/tmp"} { // for programs that do not ask for TMPDIR
		t, err := treeOf(landlock.File{Path: own[filepath.Clean(v.Temp)], Access: landlock.Writable})
		if err != nil {
			return nil, err
		}
		t.at = at
		list = append(list, t)
	}
	masks, err := v.masks()
	if err != nil {
		return nil, err
	}
	var entries []tree
	for _, e := range v.entries() { // which may be below these
		at := e.Path
		if dir := own[at]; dir != "" && e.Access == landlock.Writable {
			e.Path = dir
		}
		t, err := treeOf(e)
		if errors.Is(err, fs.ErrNotExist) && isSystems(e.Path) {
			continue
		}
		if err != nil {
			return nil, err
		}
		t.at = at
		entries = append(entries, t)
	}
	entries = append(masks, entries...)
	slices.SortStableFunc(entries, func(a, b tree) int { return strings.Compare(a.at, b.at) })
	return append(list, entries...), nil
}

// ownDirs returns where the files of the sandbox's own directories are. In memory the directories share one file
// system, and so its size.
func (v View) ownDirs() (map[string]string, error) {
	own := map[string]string{}
	for _, dir := range []string{v.Workdir, v.Home, v.Temp} {
		own[filepath.Clean(dir)] = filepath.Clean(dir)
	}
	if v.Ephemeral == 0 {
		return own, nil
	}
	options := fmt.Sprintf("size=%d,nr_inodes=%d,mode=0700", v.Ephemeral, max(v.Ephemeral/bytesPerInode, leastInodes))
	if err := mountMemory(v.Temp, options); err != nil {
		return nil, err
	}
	for i, dir := range []string{v.Workdir, v.Home, v.Temp} {
		own[filepath.Clean(dir)] = filepath.Join(v.Temp, strconv.Itoa(i))
		if err := os.Mkdir(own[filepath.Clean(dir)], 0o700); err != nil {
			return nil, err
		}
	}
	return own, nil
}

// The kernel's own memory for a file is not part of a size, and is about a kilobyte. So there is a file for each
// bytesPerInode, as many as disks have or more, and at least leastInodes for small sizes.
const (
	bytesPerInode = 8 << 10
	leastInodes   = 1024
)

func treeOf(e landlock.File) (tree, error) {
	at, link, err := find(e.Path)
	if err != nil {
		return tree{}, err
	}
	if link {
		target, err := os.Readlink(at)
		return tree{at: e.Path, link: target}, err
	}
	path, err := landlock.OpenPath(at)
	if err != nil {
		return tree{}, &os.PathError{Op: "open", Path: at, Err: err}
	}
	defer unix.Close(path)
	var info unix.Stat_t
	if err := unix.Fstat(path, &info); err != nil {
		return tree{}, &os.PathError{Op: "stat", Path: at, Err: err}
	}
	fd, err := unix.OpenTree(path, "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return tree{}, os.NewSyscallError("open_tree "+e.Path, err)
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID}
	if e.Access != landlock.Device {
		attr.Attr_set |= unix.MOUNT_ATTR_NODEV
	}
	if e.Access != landlock.Writable { // a device is written to all the same, but root does not change its mode
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		return tree{}, os.NewSyscallError("mount_setattr "+e.Path, err)
	}
	return tree{at: e.Path, fd: fd, dir: info.Mode&unix.S_IFMT == unix.S_IFDIR}, nil
}

// attach puts the tree into the root, which is the current directory. Below /tmp that has what the sandbox has
// made, symbolic links perhaps, so nothing outside of the root is ever followed.
func (t tree) attach(root *os.Root) error {
	at := strings.TrimPrefix(t.at, "/")
	if t.link != "" {
		return root.Symlink(t.link, at)
	}
	if !t.mask {
		defer unix.Close(t.fd)
	}
	place, err := makePlace(root, at, t.dir)
	if err != nil {
		return err
	}
	defer unix.Close(place)
	err = unix.MoveMount(t.fd, "", place, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	if err != nil {
		return os.NewSyscallError("move_mount "+t.at, err)
	}
	return nil
}

// makePlace makes a file or a directory on which something can be mounted, and opens it. What the sandbox has put
// there in place of a directory, such as a link to the system's programs, is an error.
func makePlace(root *os.Root, path string, dir bool) (int, error) {
	at := path
	if !dir {
		at = filepath.Dir(path)
	}
	if err := root.MkdirAll(at, 0o755); err != nil {
		return -1, err
	}
	if !dir {
		file, err := root.OpenFile(path, os.O_CREATE|os.O_RDONLY|unix.O_NONBLOCK, 0o444)
		if err != nil {
			return -1, err
		}
		file.Close()
	}
	fd, err := landlock.OpenPath(path)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: "/" + path, Err: err}
	}
	return fd, nil
}
