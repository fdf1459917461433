"""Tries by processes outside: one of the user, one of another sandbox, and the agent."""
import ctypes, fcntl, os, resource, socket, struct

from way import Refused, call, check, facts, libc, read, secret, way

P, N, A = facts["process"], facts["neighbour"], facts["agent"]
SIGNALS = facts["signals"]


def its(pid):
    """Its number may be that of another process in here."""
    with open("/proc/%d/cmdline" % pid, "rb") as f:
        line = f.read()
    if facts["mark"].encode() not in line and b"podagent" not in line:
        raise Refused("%d is %r here" % (pid, line))
    return "it reaches %d" % pid


class Vec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]


def vectors(address, data):
    local = ctypes.create_string_buffer(data, len(data))
    return local, Vec(ctypes.addressof(local), len(data)), Vec(address, len(data))


def memory(p):
    with open("/proc/%d/mem" % p["pid"], "rb", buffering=0) as f:
        f.seek(p["address"])
        return f.read(64)


def seize(p):
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    check(libc.ptrace(0x4206, p["pid"], None, None))
    check(libc.ptrace(0x4207, p["pid"], None, None))  # interrupt
    os.waitpid(p["pid"], 0x40000000)
    check(libc.ptrace(17, p["pid"], None, None))  # detach
    return its(p["pid"])


def attach(p):
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    check(libc.ptrace(16, p["pid"], None, None))
    os.waitpid(p["pid"], 0x40000000)
    check(libc.ptrace(17, p["pid"], None, None))
    return its(p["pid"])


def pidfd(p):
    return call("pidfd_open", p["pid"], 0)


def descriptor(p):
    fd = call("pidfd_getfd", pidfd(p), p["fd"], 0)
    return os.pread(fd, 4096, 0) if p["fd"] else b""


def common(of, p, found):
    """What is tried with each of the processes. found says whether what was read is what was looked for."""
    pid = p["pid"]
    path = "/proc/%d/" % pid
    way("the environment of " + of)(lambda: found(read(path + "environ")))
    way("the memory of " + of)(lambda: found(memory(p)))
    way("the maps of " + of)(lambda: read(path + "maps") and its(pid))
    way("a file that is open in " + of)(lambda: found(read(path + "fd/%d" % p["fd"])))
    way("the directory of " + of)(lambda: found(b"".join(read(path + "cwd/" + name) for name in os.listdir(path + "cwd/") if name == "secret")))
    way("the root of " + of)(lambda: secret(read(path + "root" + facts["key"])))
    way("the program of " + of)(lambda: read(path + "exe", 4) and its(pid))
    way("tracing " + of)(lambda: seize(p))
    way("a descriptor of " + of)(lambda: found(descriptor(p)))
    way("a signal to " + of)(lambda: os.kill(pid, 0) or its(pid))
    way("a signal by its descriptor to " + of)(lambda: call("pidfd_send_signal", pidfd(p), 0, 0, 0) or its(pid))
    way("limits of " + of)(lambda: limit(pid))


def limit(pid):
    soft, hard = resource.prlimit(pid, resource.RLIMIT_CORE)
    resource.prlimit(pid, resource.RLIMIT_CORE, (0, hard))
    return its(pid)


common("a process", P, secret)
common("another sandbox's process", N, secret)
common("the agent", A, lambda _: its(A["pid"]))


@way("the environment of any process")
def _():
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                return secret(read("/proc/%s/environ" % name))
            except (OSError, Refused):
                pass
    raise Refused("in none")


@way("what the launcher's environment has")
def _():
    for pid in ("1", "self", str(os.getppid()), str(A["pid"])):
        try:
            return secret(read("/proc/%s/environ" % pid))
        except (OSError, Refused):
            pass
    raise Refused("in none")


@way("the threads of the agent")
def _():
    why = Refused("there are none")
    for name in os.listdir("/proc/%d/task" % A["pid"]):
        try:
            return memory({"pid": int(name), "address": A["address"]}) and its(int(name))
        except OSError as e:
            why = e
    raise why


@way("writing the memory of a process")
def _():
    with open("/proc/%d/mem" % P["pid"], "r+b", buffering=0) as f:
        f.seek(P["spare"])
        f.write(b"x")
    return its(P["pid"])


@way("process_vm_readv")
def _():
    local, mine, theirs = vectors(P["address"], b"\0" * 64)
    call("process_vm_readv", P["pid"], ctypes.byref(mine), 1, ctypes.byref(theirs), 1, 0)
    return secret(local.raw)


@way("process_vm_writev")
def _():
    local, mine, theirs = vectors(P["spare"], b"x")
    call("process_vm_writev", P["pid"], ctypes.byref(mine), 1, ctypes.byref(theirs), 1, 0)
    return its(P["pid"])


way("ptrace attach")(lambda: attach(P))
way("kcmp")(lambda: call("kcmp", os.getpid(), P["pid"], 1, 0, 0) >= 0 and its(P["pid"]))


@way("move_pages")
def _():
    page, status = ctypes.c_void_p(P["address"] & ~4095), ctypes.c_int(-1)
    call("move_pages", P["pid"], 1, ctypes.byref(page), 0, ctypes.byref(status), 0)
    return its(P["pid"])


@way("a file that a process has mapped")
def _():
    directory = "/proc/%d/map_files" % P["pid"]
    return read(os.path.join(directory, os.listdir(directory)[0]), 4) and its(P["pid"])


def queue(name, how):
    """A signal that waits in the process, which the test asks for it."""
    way(name)(lambda: how(SIGNALS[name]) or its(P["pid"]))


def siginfo(signal):
    return struct.pack("iiiiii", signal, 0, -1, 0, os.getpid(), os.getuid()).ljust(128, b"\0")


queue("kill", lambda s: os.kill(P["pid"], s))
queue("kill of a group", lambda s: os.killpg(P["pid"], s))
queue("tgkill", lambda s: call("tgkill", P["pid"], P["pid"], s))
queue("sigqueue", lambda s: call("rt_sigqueueinfo", P["pid"], s, siginfo(s)))


def own(name, set_owner):
    """Input makes the kernel signal the owner of a socket, whom nobody checks before."""
    @way(name)
    def _():
        one, other = socket.socketpair()
        set_owner(one.fileno())
        fcntl.fcntl(one, 10, SIGNALS[name])  # F_SETSIG
        fcntl.fcntl(one, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
        other.send(b"x")
        raise Refused("the kernel sends it, or not")


own("a signal by F_SETOWN", lambda fd: fcntl.fcntl(fd, 8, P["pid"]))
own("a signal by F_SETOWN_EX", lambda fd: fcntl.fcntl(fd, 15, struct.pack("ii", 1, P["pid"])))
own("a signal by FIOSETOWN", lambda fd: fcntl.ioctl(fd, 0x8901, struct.pack("i", P["pid"])))
own("a signal by SIOCSPGRP", lambda fd: fcntl.ioctl(fd, 0x8902, struct.pack("i", P["pid"])))

way("the priority of a process")(lambda: os.setpriority(os.PRIO_PROCESS, P["pid"], 19) or its(P["pid"]))
way("the scheduler of a process")(lambda: os.sched_setscheduler(P["pid"], os.SCHED_BATCH, os.sched_param(0)) or its(P["pid"]))
way("the processors of a process")(lambda: os.sched_setaffinity(P["pid"], os.sched_getaffinity(P["pid"])) or its(P["pid"]))
way("the priority of a process for disks")(lambda: call("ioprio_set", 1, P["pid"], 2 << 13 | 7) or its(P["pid"]))


def settings(name, file, text):
    @way(name)
    def _():
        with open("/proc/%d/%s" % (P["pid"], file), "w") as f:
            f.write(text)
        return its(P["pid"])


settings("whom the kernel kills first", "oom_score_adj", "900")
settings("what a process leaves when it crashes", "coredump_filter", "0x33")
settings("the counters of a process's memory", "clear_refs", "1")


@way("the namespaces of a process")
def _():
    with open("/proc/%d/ns/net" % P["pid"]) as f:
        check(libc.setns(f.fileno(), 0))
    return "it is in the network"


way("the namespaces of a process by its descriptor")(lambda: check(libc.setns(pidfd(P), 0x40000000)) or "it is in the network")
way("the namespaces of the agent")(lambda: check(libc.setns(os.open("/proc/%d/ns/mnt" % A["pid"], os.O_RDONLY), 0)) or "it is there")
