"""Tries by files outside: of the user, of the system, of other sandboxes, and of the launcher."""
import fcntl, glob, mmap, os, resource, shutil, socket, struct, subprocess

from way import AT_FDCWD, Refused, call, check, facts, libc, read, secret, victim, way

KEY, HOME, F = facts["key"], facts["home"], facts["files"]
SSH = os.path.dirname(KEY)  # no path to a sandbox leads through it
UP = "../" * 20

way("a key of the user's")(lambda: secret(read(KEY)))
way("a key by a way upward")(lambda: secret(read(UP + KEY[1:])))
way("a key by its process's root")(lambda: secret(read("/proc/self/root" + KEY)))
way("a key by its process's directory")(lambda: secret(read("/proc/self/cwd/" + UP + KEY[1:])))
way("a pipe in what it may read")(lambda: write(F["pipe"], os.O_NONBLOCK, b"a pipe in what it may read\n") or refuse("it arrives, or not"))
way("a lock of what it may read")(lambda: fcntl.flock(os.open(F["readable"], os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB) or "it locks it")
way("writing what it may read")(lambda: opened(F["readable"], os.O_WRONLY))
way("changing the modes of what it may read")(lambda: os.chmod(F["readable"], 0o644) or "it says so")
way("a key of root's")(lambda: secret(read(facts["rootkey"])))
way("a file in /run")(lambda: secret(read(F["run"])))
way("a file in /tmp")(lambda: secret(read(F["tmp"])))
way("what another sandbox has")(lambda: secret(read(F["neighbour"])))
way("what another sandbox has at home")(lambda: secret(read(F["neighbour home"])))
way("the record of the sandbox")(lambda: read(F["record"]) and "it reads")
way("the log of the agent")(lambda: opened(F["log"], os.O_RDONLY))
way("the names in a directory")(lambda: "it sees " + str(os.listdir(SSH)))
way("the names by a pattern")(lambda: "it sees " + glob.glob(HOME + "/.ssh/i*")[0] if glob.glob(HOME + "/.ssh/i*") else refuse("none"))
way("a path that exists")(lambda: "it is %d long" % os.stat(KEY).st_size)
way("where a link leads")(lambda: "to " + os.readlink(HOME + "/link"))
way("an attribute of a file")(lambda: secret(os.getxattr(KEY, "user.secret")))
way("the names of attributes")(lambda: str(os.listxattr(KEY)) if "user.secret" in os.listxattr(KEY) else refuse("none"))
way("a program of the user's")(lambda: secret(output([HOME + "/bin/tool"])))
way("a program of the user's by an interpreter")(lambda: secret(output(["/bin/sh", HOME + "/bin/tool"])))
way("a program of the user's by its loader")(lambda: secret(output([loader(), HOME + "/bin/cat", KEY])))


def link_to(fd, path):
    """A hard link to what is open."""
    check(libc.linkat(AT_FDCWD, b"/proc/self/fd/%d" % fd, AT_FDCWD, path.encode(), 0x400))


def refuse(why):
    raise Refused(why)


def output(args):
    return subprocess.run(args, stdin=subprocess.DEVNULL, capture_output=True).stdout


def loader():
    return (glob.glob("/lib64/ld-linux-*") + glob.glob("/lib/ld-linux-*"))[0]


def opened(path, flags):
    os.close(os.open(path, flags | os.O_NONBLOCK))
    return "it opens " + path


@way("a program of the user's by its descriptor")
def _():
    reader, writer = os.pipe()
    if os.fork() == 0:
        try:
            os.dup2(writer, 1)
            os.execve(os.open(HOME + "/bin/cat", os.O_PATH), ["cat", KEY], {})
        finally:
            os._exit(126)
    os.close(writer)
    return secret(os.read(reader, 4096))


# What --readable names can be more than files.
@way("a socket in what it may read")
def _():
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(facts["sockets"]["readable"])
        return secret(s.recv(4096))


@way("a directory that it enters")
def _():
    os.chdir(SSH)
    return "it is in " + os.getcwd()


@way("a key from the directory that it entered")
def _():
    os.chdir(SSH)
    return secret(read("id"))


@way("a key by its path alone")
def _():
    fd = os.open(KEY, os.O_PATH)
    return secret(read("/proc/self/fd/%d" % fd))


@way("a key below a path alone")
def _():
    fd = os.open(HOME, os.O_PATH)
    return secret(os.read(os.open(".ssh/id", os.O_RDONLY, dir_fd=fd), 4096))


@way("openat2")
def _():
    how = struct.pack("3Q", os.O_RDONLY, 0, 0)
    return secret(os.read(call("openat2", AT_FDCWD, KEY.encode(), how, 24), 4096))


@way("a key by a symbolic link")
def _():
    os.symlink(KEY, "link")
    return secret(read("link"))


@way("a key by a hard link")
def _():
    os.link(KEY, "hard")
    return secret(read("hard"))


@way("a key by a hard link to a descriptor")
def _():
    fd = os.open(KEY, os.O_PATH)
    link_to(fd, "hard-by-fd")
    return secret(read("hard-by-fd"))


@way("a key that it copies")
def _():
    shutil.copyfile(KEY, "copy")
    return secret(read("copy"))


def changing(name):
    """What changes what is in the try's own directory outside. The test looks whether it does."""
    def add(function):
        return way(name)(lambda: function(victim(name)) and None or "it says so")
    return add


def write(path, flags, data=b"changed"):
    fd = os.open(path, os.O_WRONLY | flags, 0o600)
    os.write(fd, data)
    os.close(fd)


changing("writing")(lambda d: write(d + "/f", 0))
changing("appending")(lambda d: write(d + "/f", os.O_APPEND))
changing("truncating")(lambda d: os.truncate(d + "/f", 0))
changing("truncating by opening")(lambda d: os.close(os.open(d + "/f", os.O_RDONLY | os.O_TRUNC)))
changing("making a file")(lambda d: write(d + "/.bashrc", os.O_CREAT | os.O_EXCL))
changing("making a file below .ssh")(lambda d: write(d + "/d/authorized_keys", os.O_CREAT | os.O_EXCL))
changing("removing a file")(lambda d: os.remove(d + "/f"))
changing("removing a directory")(lambda d: os.rmdir(d + "/empty"))
changing("making a directory")(lambda d: os.mkdir(d + "/new"))
changing("making a symbolic link")(lambda d: os.symlink("f", d + "/new"))
changing("making a pipe")(lambda d: os.mkfifo(d + "/new"))
changing("making a socket")(lambda d: socket.socket(socket.AF_UNIX).bind(d + "/s"))
changing("renaming within")(lambda d: os.rename(d + "/f", d + "/new"))
changing("taking a file")(lambda d: os.rename(d + "/f", "taken"))
changing("taking a directory")(lambda d: os.rename(d + "/d", "taken-d"))
changing("changing a mode")(lambda d: os.chmod(d + "/f", 0o640))
changing("changing the mode of a directory")(lambda d: os.chmod(d + "/d", 0o750))
changing("changing times")(lambda d: os.utime(d + "/f", (1, 1)))
changing("changing an attribute")(lambda d: os.setxattr(d + "/f", "user.new", b"x"))
changing("removing an attribute")(lambda d: os.removexattr(d + "/f", "user.old"))
changing("writing to a pipe outside")(lambda d: write(d + "/fifo", os.O_NONBLOCK))


@changing("a core of a process")
def _(d):
    resource.setrlimit(resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2)
    os.chdir(d + "/d")
    os.abort()


@changing("linking a file into it")
def _(d):
    write("mine", os.O_CREAT)
    os.link("mine", d + "/new")


@changing("moving a file into it")
def _(d):
    write("mine-2", os.O_CREAT)
    os.rename("mine-2", d + "/f")


@changing("exchanging files")
def _(d):
    write("mine-3", os.O_CREAT)
    call("renameat2", AT_FDCWD, b"mine-3", AT_FDCWD, (d + "/f").encode(), 2)


@changing("a file without a name")
def _(d):
    fd = os.open(d, os.O_TMPFILE | os.O_WRONLY, 0o600)
    link_to(fd, d + "/new")


@changing("writing by a map of memory")
def _(d):
    with open(d + "/f", "r+b") as f:
        mmap.mmap(f.fileno(), 0)[:1] = b"X"


@changing("writing by a symbolic link")
def _(d):
    os.symlink(d + "/f", "to-write")
    write("to-write", 0)


@changing("making a file behind a symbolic link")
def _(d):
    os.symlink(d + "/new", "to-make")
    write("to-make", os.O_CREAT)


@changing("changing an owner")
def _(d):
    os.chown(d + "/f", -1, os.getegid() if os.getuid() else 4242)


@changing("changing flags")
def _(d):
    fd = os.open(d + "/f", os.O_RDONLY)
    fcntl.ioctl(fd, 0x40086602, struct.pack("l", 0x40))  # FS_IOC_SETFLAGS, no dump


way("writing the record of the sandbox")(lambda: opened(F["record"], os.O_WRONLY))
way("writing the log of the agent")(lambda: opened(F["log"], os.O_WRONLY))
way("writing what another sandbox has")(lambda: opened(F["neighbour"], os.O_WRONLY))
way("a file among the sandboxes")(lambda: made(F["among"]))
way("a file beside the workspace")(lambda: made(F["beside"]))
way("the file of the agent's program")(lambda: opened(F["program"], os.O_RDONLY))
way("writing the configuration of the system")(lambda: opened("/etc/passwd", os.O_WRONLY))
way("writing the system's programs")(lambda: opened(F["system"], os.O_WRONLY))
way("changing the modes of the system")(lambda: os.chmod(F["system"], os.stat(F["system"]).st_mode & 0o777) or "it says so")
way("secrets of the system")(lambda: "it reads" if read("/etc/shadow") else refuse("it is empty"))


def made(path):
    """The test looks whether it is outside."""
    write(path, os.O_CREAT | os.O_EXCL)
    raise Refused("it is there")
