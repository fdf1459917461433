"""Tries to leave a sandbox, and what they share.

A try is a function with a name. It returns a text if it leads out, and raises OSError or Refused if
something refuses it. Anything else that it raises is a mistake of the try. Each runs in a process of its own.
"""
import ctypes, hashlib, json, os, platform, re, resource, signal, sys

facts = json.load(open(sys.argv[1])) if len(sys.argv) > 1 else {}
libc = ctypes.CDLL(None, use_errno=True)
tries = {}


class Refused(Exception):
    pass


def way(name):
    def add(function):
        assert name not in tries, name
        tries[name] = function
        return function
    return add


def secret(data):
    """The secret in bytes that were read outside."""
    for text in re.findall(rb"podagent-secret-\w+", data):
        if hashlib.sha256(text).hexdigest() == facts["digest"]:
            return "it reads the secret"
    raise Refused("there is %r" % data[:80])


def read(path, size=1 << 16):
    with open(path, "rb", buffering=0) as f:
        return f.read(size)


def victim(name):
    """A directory outside that is this try's own. The test sees whether it changes."""
    return os.path.join(facts["victims"], name)


# The numbers of system calls on amd64 and arm64. From 424 on they are the same.
NUMBERS = {
    "tgkill": (234, 131), "rt_sigqueueinfo": (129, 138), "pivot_root": (155, 41), "kcmp": (312, 272),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "move_pages": (279, 239), "ioprio_set": (251, 30),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "add_key": (248, 217),
    "request_key": (249, 218), "keyctl": (250, 219), "finit_module": (313, 273), "delete_module": (176, 106),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "reboot": (169, 142), "clone": (56, 220), "settimeofday": (164, 170),
    "swapon": (167, 224), "open_by_handle_at": (304, 265), "name_to_handle_at": (303, 264), "renameat2": (316, 276),
    "pidfd_send_signal": (424, 424), "io_uring_setup": (425, 425), "open_tree": (428, 428), "move_mount": (429, 429),
    "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "pidfd_open": (434, 434), "clone3": (435, 435), "openat2": (437, 437),
    "pidfd_getfd": (438, 438), "mount_setattr": (442, 442), "listmount": (458, 458),
}
ARCH = {"x86_64": 0, "aarch64": 1}[platform.machine()]
AT_FDCWD, AT_RECURSIVE = -100, 0x8000
CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000


def check(result):
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def call(name, *args):
    values = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    libc.syscall.restype = ctypes.c_long
    return check(libc.syscall(ctypes.c_long(NUMBERS[name][ARCH]), *values))


def run(function):
    """What comes of a try: out, refused or broken, and why."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        resource.setrlimit(resource.RLIMIT_CPU, (10, 20))
        signal.alarm(300)
        try:
            result = ("out", function())
            assert isinstance(result[1], str)
        except (OSError, Refused) as e:
            result = ("refused", str(e))
        except BaseException as e:
            result = ("broken", repr(e))
        os.write(writer, json.dumps(result).encode()[:4000])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as f:
        text = f.read()
    _, status = os.waitpid(child, 0)
    return json.loads(text) if text else ("broken" if status & 127 in (signal.SIGALRM, signal.SIGXCPU) else "refused", "it ended with %d" % status)
