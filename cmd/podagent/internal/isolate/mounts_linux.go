package isolate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/cmd/podagent/internal/landlock"
	"github.com/podagent/podagent/pkg/podapi/isolation"
)

// furnish builds the file system of the view, gives up the rights that this takes, and runs the program
// again. If that fails, the program outside learns why.
func (s *State) furnish() {
	unix.CloseOnExec(s.Report)
	err := s.furnishAll()
	if err == nil {
		s.Stage, s.Level = inside, isolation.Namespaces
		err = s.become()
	}
	s.report(err)
	os.Exit(isolation.ExitStatus)
}

// furnishAll returns the first error, which says whether the machine refuses what is tried.
func (s *State) furnishAll() error {
	for _, step := range []func() error{
		newKeyring, s.keepStore, s.buildRoot, upLoopback, nameHost,
		func() error { return os.Chdir(s.View.Workdir) }, func() error { return s.limit(isolation.Namespaces, 0) }, dropRights,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// keepStore keeps the directory of the checkpoints open, as a tree of its own that is mounted nowhere: commands have
// no path to it, and nothing leads from it to the rest of the machine. It cannot be in memory with the workdir.
func (s *State) keepStore() error {
	if s.View.Checkpoints == "" || s.View.Ephemeral > 0 {
		s.View.Checkpoints = ""
		return nil
	}
	t, err := treeOf(landlock.File{Path: s.View.Checkpoints, Access: landlock.Writable})
	s.Store = t.fd
	return err
}

func nameHost() error {
	return os.NewSyscallError("sethostname", unix.Sethostname([]byte(hostname)))
}

// hostname is what the sandbox's machine is called inside.
const hostname = "sandbox"

// newKeyring gives the program a keyring of its own, in place of the one of the user.
func newKeyring() error {
	_, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) { // no keyrings, or a filter that refuses them all
		return nil
	}
	return os.NewSyscallError("keyctl", err)
}

// The sizes of what is in memory: of the directories at the root, and of /dev/shm. Browsers and what
// learns from data need more than 64 MiB of that.
const (
	rootSize = "size=1m,mode=0755"
	shmBytes = 1 << 30
	shmMode  = "size=%d,nr_inodes=64k,mode=1777" // each file takes memory, too
)

// terminalMode lets a sandbox have 128 terminals at once, those of its callers among them. The machine has some 3000
// for all (kernel.pty.max), and root's sandboxes have no more right to them than others.
const terminalMode = "newinstance,ptmxmode=0666,mode=0620,max=128"

const quiet = unix.MS_NOSUID | unix.MS_NODEV

// buildRoot changes the program's root to one with what the view has.
func (s *State) buildRoot() error {
	view := s.View
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return os.NewSyscallError("mount /", err)
	}
	trees, err := view.trees()
	if err != nil {
		return err
	}
	// The directory is just a place. What is below it is among the trees already.
	if err := mountMemory(view.Home, rootSize); err != nil {
		return err
	}
	if err := os.Chdir(view.Home); err != nil {
		return err
	}
	root, err := os.OpenRoot(".")
	if err != nil {
		return err
	}
	defer root.Close()
	for _, t := range trees {
		if err := t.attach(root); err != nil {
			return err
		}
	}
	if err := freezeMasks(trees); err != nil {
		return err
	}
	for _, build := range []func() error{s.buildProc, view.buildDev, buildGroups, func() error { view.makeLinks(root); return nil }, func() error { return enterRoot(view) }} {
		if err := build(); err != nil {
			return err
		}
	}
	return nil
}

// mountMemory mounts a directory in memory upon one of the machine. That this one cannot be reached is an error of
// a path, and not of the mount.
func mountMemory(dir, options string) error {
	place, err := landlock.OpenPath(dir)
	if err != nil {
		return &os.PathError{Op: "open", Path: dir, Err: err}
	}
	defer unix.Close(place)
	return mount("tmpfs", fmt.Sprintf("/proc/self/fd/%d", place), "tmpfs", quiet, options)
}

func mount(source, target, kind string, flags uintptr, data string) error {
	if err := unix.Mount(source, target, kind, flags, data); err != nil {
		return os.NewSyscallError("mount "+kind+" "+strings.TrimPrefix(target, "."), err)
	}
	return nil
}

// Files of /proc that are the machine's: some can be changed, or read, by root of the machine, whom the kernel
// does not tell from root of the sandbox where they have the same number.
var (
	procReadable = []string{"sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "mtrr", "driver", "scsi", "tty", "asound", "pressure", "dynamic_debug"}
	procHidden   = []string{"kcore", "keys", "key-users", "timer_list", "sched_debug", "kmsg", "latency_stats"}
	procOfRoot   = []string{"kpagecount", "kpageflags", "kpagecgroup", "pagetypeinfo", "slabinfo", "vmallocinfo"}
)

// buildProc mounts a /proc of the sandbox's processes.
func (s *State) buildProc() error {
	if err := os.Mkdir("proc", 0o555); err != nil {
		return err
	}
	if err := mount("proc", "./proc", "proc", quiet|unix.MS_NOEXEC, ""); err != nil {
		return err
	}
	if err := s.limitNumbers("proc"); err != nil {
		return err
	}
	for _, name := range procReadable {
		if err := freeze(filepath.Join("proc", name)); err != nil {
			return err
		}
	}
	hidden := procHidden
	if hidesSecrets() {
		hidden = slices.Concat(procHidden, procOfRoot)
	}
	for _, name := range hidden {
		if err := hide(filepath.Join("proc", name)); err != nil {
			return err
		}
	}
	return nil
}

// groups is where the tree of control groups is.
const groups = "sys/fs/cgroup"

// buildGroups shows the sandbox its own control groups in place of the machine's, which tell of its services.
// By the limits of the group that it is in, the agent knows how much memory there is.
func buildGroups() error {
	var stat unix.Statfs_t
	if err := unix.Statfs(groups, &stat); err != nil || stat.Type != unix.CGROUP2_SUPER_MAGIC {
		return nil // version 1, which does not know whose they are, or none
	}
	// The kernel refuses to mount a file system upon itself.
	if err := mount("tmpfs", "./"+groups, "tmpfs", quiet|unix.MS_RDONLY, "size=0,mode=0555"); err != nil {
		return err
	}
	// Where even this is refused, the agent does without.
	_ = mount("cgroup2", "./"+groups, "cgroup2", quiet|unix.MS_NOEXEC|unix.MS_RDONLY, "")
	return nil
}

// freeze makes a path of the new root read-only, if there is one.
func freeze(path string) error {
	if _, err := os.Lstat(path); err != nil {
		return nil
	}
	if err := mount(path, path, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, path, unix.AT_RECURSIVE, &attr); err != nil {
		return os.NewSyscallError("mount_setattr "+path, err)
	}
	return nil
}

// hide puts an empty file or directory in front of a path of the new root, if there is one.
func hide(path string) error {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return nil
	case info.IsDir():
		return mount("tmpfs", path, "tmpfs", quiet|unix.MS_RDONLY, "size=0,mode=0555")
	}
	return mount("dev/null", path, "", unix.MS_BIND, "")
}

// buildDev makes what /dev has besides the devices: terminals and shared memory of the sandbox's own.
func (v View) buildDev() error {
	shm := int64(shmBytes)
	if v.Ephemeral > 0 {
		shm = min(shm, v.Ephemeral)
	}
	for _, dir := range []string{"dev/pts", "dev/shm"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	err := errors.Join(
		mount("devpts", "./dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, terminalMode),
		mount("tmpfs", "./dev/shm", "tmpfs", quiet, fmt.Sprintf(shmMode, shm)),
	)
	for name, target := range map[string]string{"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		err = errors.Join(err, os.Symlink(target, filepath.Join("dev", name)))
	}
	return err
}

// enterRoot makes the current directory the root, and lets go of the old one.
func enterRoot(view View) error {
	if err := os.MkdirAll("run", 0o755); err != nil {
		return err
	}
	if hidesSecrets() {
		for _, path := range secrets("." + secretDir) {
			if err := hide(path); err != nil {
				return err
			}
		}
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return os.NewSyscallError("pivot_root", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return os.NewSyscallError("umount", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	return os.NewSyscallError("mount_setattr", unix.MountSetattr(unix.AT_FDCWD, "/", 0, &attr))
}

// upLoopback makes the sandbox's loopback work, which is all the network that it has.
func upLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return os.NewSyscallError("ioctl", unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request))
}
