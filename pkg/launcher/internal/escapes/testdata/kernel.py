"""Tries by mounts, namespaces, rights, devices, and what else the kernel offers."""
import ctypes, errno, fcntl, os, socket, stat, struct, subprocess, termios

from way import (AT_FDCWD, AT_RECURSIVE, CLONE_NEWNS, CLONE_NEWUSER, Refused, call, check, facts, libc, read, secret, way)

P = facts["process"]
MS_REMOUNT, MS_BIND, MS_PRIVATE, MS_REC = 32, 4096, 1 << 18, 16384


def mount(source, target, kind, flags=0, data=None):
    encode = lambda s: s.encode() if s is not None else None
    check(libc.mount(encode(source), encode(target), encode(kind), ctypes.c_ulong(flags), encode(data)))


def space():
    """Mounts of its own, where there can be some, so that a try outside changes nothing for others."""
    if libc.unshare(CLONE_NEWNS | (CLONE_NEWUSER if os.geteuid() else 0)) == 0:
        mount("none", "/", None, MS_REC | MS_PRIVATE)


def mounting(name):
    def add(function):
        def tried():
            space()
            os.makedirs("mount", exist_ok=True)
            function()
            return "it mounts"
        return way(name)(tried)
    return add


def child_of(make):
    """A child that clone made in a namespace of its own."""
    pid = make()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0x40000000)
    return "it has a namespace of its own"


way("a user namespace by unshare")(lambda: check(libc.unshare(CLONE_NEWUSER)) or "it is in one")
way("a user namespace by clone")(lambda: child_of(lambda: call("clone", CLONE_NEWUSER | 17, 0, 0, 0, 0)))
way("a user namespace by clone3")(lambda: child_of(lambda: call("clone3", struct.pack("8Q", CLONE_NEWUSER, 0, 0, 0, 17, 0, 0, 0), 64)))


@way("a network namespace")
def _():
    check(libc.unshare(0x40000000 | (CLONE_NEWUSER if os.geteuid() else 0)))
    return "it is in one"


mounting("a mount of memory")(lambda: mount("none", "mount", "tmpfs"))
mounting("a mount of what is there")(lambda: mount("/", "mount", None, MS_BIND | MS_REC))
mounting("a mount of processes")(lambda: mount("proc", "mount", "proc"))
mounting("a mount that is made writable")(lambda: mount(None, facts["mounted"], None, MS_REMOUNT | MS_BIND))
mounting("an end of a mount")(lambda: check(libc.umount2(b"/proc", 2)))
mounting("a change of a mount")(lambda: call("mount_setattr", AT_FDCWD, b"/", AT_RECURSIVE, struct.pack("4Q", 1, 0, 0, 0), 32))
mounting("a copy of a mount")(lambda: call("open_tree", AT_FDCWD, b"/", 1 | AT_RECURSIVE))
mounting("a file system in the new way")(lambda: call("fsopen", b"tmpfs", 0))
mounting("another root")(lambda: (check(libc.chroot(b".")), secret(read("../" * 20 + facts["key"][1:])) if os.path.exists("../" * 20 + facts["key"][1:]) else None))


@mounting("a mount elsewhere")
def _():
    fd = call("open_tree", AT_FDCWD, b"/", 1 | AT_RECURSIVE)
    call("move_mount", fd, b"", AT_FDCWD, b"mount", 4)


@mounting("pivot_root")
def _():
    try:
        mount("none", "mount", "tmpfs")
        os.chdir("mount")
    except OSError:
        pass
    call("pivot_root", b".", b".")


way("mount, the program")(lambda: run(["unshare", "-m"] + (["-r"] if os.geteuid() else []) + ["mount", "-t", "tmpfs", "none", "/mnt"]))
way("su, the program")(lambda: run(["su", "nobody", "-s", "/bin/sh", "-c", "true"]))


def run(args, want=None):
    done = subprocess.run(args, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0 or want is not None and done.stdout.strip() != want:
        raise Refused("%d: %s %s" % (done.returncode, done.stdout, done.stderr))
    return "it runs"


way("a set-user-ID program")(lambda: run([facts["setid"]["path"], "-u"], facts["setid"]["want"]))
way("a program with capabilities")(lambda: secret(run_out([facts["capable"], facts["rootkey"]])))


def run_out(args):
    return subprocess.run(args, stdin=subprocess.DEVNULL, capture_output=True).stdout


way("being another user")(lambda: os.setresuid(4242, 4242, 4242) or "it is 4242")
way("being in another group")(lambda: os.setgroups([4242]) or "it is in 4242")


def opened(path, flags=os.O_WRONLY):
    fd = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
    if os.fstat(fd).st_rdev == os.makedev(1, 3):
        raise Refused("it is /dev/null")
    return "it opens " + path


# What stands for the kernel's settings. Tries open it, and write nothing.
for path in [
    "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hotplug", "/proc/sys/kernel/sysrq", "/proc/sys/kernel/hostname",
    "/proc/sys/kernel/ns_last_pid", "/proc/sys/kernel/randomize_va_space", "/proc/sys/vm/drop_caches", "/proc/sys/vm/overcommit_memory", "/proc/sys/net/ipv4/ip_forward",
    "/proc/sys/fs/binfmt_misc/register", "/proc/sysrq-trigger", "/proc/irq/default_smp_affinity", "/proc/mtrr",
    "/sys/kernel/uevent_helper", "/sys/power/state", "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/kernel/mm/ksm/run",
    "/sys/class/mem/null/uevent", "/sys/fs/cgroup/cgroup.procs", "/sys/module/kernel/parameters/panic",
]:
    way("writing " + path)(lambda path=path: opened(path))

for path in ["/dev/mem", "/dev/kmsg", "/dev/fuse", "/dev/net/tun", "/dev/kvm", "/dev/loop-control", "/dev/vsock", "/dev/userfaultfd", "/dev/console", "/dev/tty0", "/dev/rtc0", "/dev/hwrng", "/dev/uinput"]:
    way("the device " + path)(lambda path=path: opened(path, os.O_RDWR))
for path in ["/proc/kcore", "/proc/kmsg", "/proc/vmallocinfo", "/proc/slabinfo"]:
    way("reading " + path)(lambda path=path: opened(path, os.O_RDONLY))



def writable(top, passed=()):
    """A file below a directory that opens to be written. Tries write nothing."""
    for directory, below, names in os.walk(top):
        below[:] = [name for name in below if os.path.join(directory, name) not in passed and not (top == "/proc" and name.isdigit())]
        for name in names:
            path = os.path.join(directory, name)
            try:
                if stat.S_ISREG(os.lstat(path).st_mode):
                    return opened(path)
            except (OSError, Refused):
                pass
    raise Refused("there is none")


way("any file of /proc for writing")(lambda: writable("/proc", ["/proc/self", "/proc/thread-self", "/proc/net"]))
way("any file of /sys for writing")(lambda: writable("/sys"))
way("the mode of a device")(lambda: os.chmod("/dev/null", 0o666) or "it says so")
way("the times of a device")(lambda: os.utime("/dev/full") or "it says so")
way("a directory among the control groups")(lambda: (os.mkdir("/sys/fs/cgroup/podagent-escape"), os.rmdir("/sys/fs/cgroup/podagent-escape")) and "it makes one")


def disks():
    """The numbers of the machine's disks, with their names."""
    for line in open("/proc/partitions").read().splitlines()[2:]:
        major, minor, _, name = line.split()
        yield os.makedev(int(major), int(minor)), name


@way("a disk")
def _():
    for number, name in disks():
        if stat.S_ISBLK(os.stat("/dev/" + name).st_mode):
            return opened("/dev/" + name, os.O_RDONLY)
    raise Refused("there is none")


def node(kind, number):
    os.mknod("node", kind | 0o600, number)
    try:
        return opened("node", os.O_RDONLY)
    finally:
        os.remove("node")


way("a disk that it makes")(lambda: node(stat.S_IFBLK, next(disks())[0]))
way("a device that it makes")(lambda: node(stat.S_IFCHR, os.makedev(1, 5)))


@way("a terminal outside")
def _():
    with open(P["terminal"], "wb", buffering=0) as f:
        f.write(b"x")
    return "it writes"


@way("the parent of its namespaces")
def _():
    parent = fcntl.ioctl(os.open("/proc/self/ns/user", os.O_RDONLY), 0xb702)  # NS_GET_PARENT
    check(libc.setns(parent, 0))
    return "it is in it"


def types(terminal):
    """Input for a terminal. Without rights, a process types only into its own, so it makes the terminal that."""
    os.setsid()
    with open(terminal, "rb", buffering=0) as f:
        fcntl.ioctl(f, termios.TIOCSTI, b"x")
    return "it types"


way("input for a terminal outside")(lambda: types(P["terminal"]))
way("input for a terminal that it makes")(lambda: types(os.ttyname(os.openpty()[1])))


def reaches(name, function, *but):
    """A call whose arguments are wrong. The kernel says so to those who may call it."""
    @way(name)
    def _():
        try:
            function()
        except OSError as e:
            if e.errno in (errno.EPERM, errno.EACCES, errno.ENOSYS) or e.errno in but:
                raise
        return "the kernel looks at it"


reaches("io_uring", lambda: call("io_uring_setup", 1, 0))
reaches("bpf", lambda: call("bpf", 0, ctypes.create_string_buffer(struct.pack("4I", 2, 4, 4, 1).ljust(128, b"\0")), 128))
reaches("userfaultfd", lambda: call("userfaultfd", 1))
reaches("a module of the kernel", lambda: call("finit_module", -1, b"", 0))
reaches("the end of a module", lambda: call("delete_module", b"no_such_module", 0))
reaches("another kernel", lambda: call("kexec_load", 0, 0, 0, 0xdead))
reaches("another kernel from a file", lambda: call("kexec_file_load", -1, -1, 0, 0, 0xdead))
reaches("the end of the machine", lambda: call("reboot", 1, 2, 3, 0))
reaches("the time", lambda: call("settimeofday", 0, 0))
reaches("memory on a disk", lambda: call("swapon", b"/no/such/file", 0))
reaches("the name of the machine", lambda: check(libc.sethostname(os.uname().nodename.encode(), len(os.uname().nodename.encode()))))


def watched(pid, processor):
    attr = struct.pack("IIQQQQ", 1, 128, 0, 0, 0, 0).ljust(128, b"\0")  # the clock of a processor
    os.close(call("perf_event_open", attr, pid, processor, -1, 0))
    return "it measures"


way("perf of a process")(lambda: watched(P["pid"], -1))
way("perf of a processor")(lambda: watched(-1, 0))
way("what the kernel logs")(lambda: check(libc.klogctl(3, ctypes.create_string_buffer(4096), 4096)) and "it reads")


@way("a file by its handle")
def _():
    handle = ctypes.create_string_buffer(bytes.fromhex(facts["handle"]))
    return secret(os.read(call("open_by_handle_at", os.open("/var/tmp" if os.path.isdir("/var/tmp") else ".", os.O_RDONLY), handle, os.O_RDONLY), 4096))


@way("events of paths outside by fanotify")
def _():
    fd = check(libc.fanotify_init(0x200 | 0x400, 0))  # with names, without rights
    check(libc.fanotify_mark(fd, 1, ctypes.c_uint64(0x100 | 0x2), AT_FDCWD, os.path.dirname(facts["key"]).encode()))
    return "it watches"


@way("events of paths outside by inotify")
def _():
    check(libc.inotify_add_watch(check(libc.inotify_init()), os.path.dirname(facts["key"]).encode(), 0x100 | 0x2))
    return "it watches"
