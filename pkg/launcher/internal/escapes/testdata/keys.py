"""Tries by the kernel's objects that have no path: keys, memory and queues of System V and of POSIX."""
import ctypes, os

from way import Refused, call, check, facts, libc, read, secret, way

P = facts["process"]
SESSION, USER = -3, -4


def key(ring):
    found = call("keyctl", 10, ring, b"user", P["key"].encode(), 0)  # search
    return secret(keyed(found))


way("a key of the user")(lambda: key(USER))
way("a key of the session")(lambda: key(SESSION))
way("a key by its number")(lambda: secret(keyed(P["number"])))
way("a key by request")(lambda: secret(keyed(call("request_key", b"user", P["key"].encode(), 0, 0))))
way("a key for the user")(lambda: call("add_key", b"user", b"podagent-escape", b"x", 1, USER) and "it adds one")


def keyed(number):
    data = ctypes.create_string_buffer(4096)
    call("keyctl", 11, number, data, 4096)  # read
    return data.raw


@way("the names of keys")
def _():
    with open("/proc/keys", "rb") as f:  # which one read does not give whole
        if P["key"].encode() not in f.read():
            raise Refused("it is not among them")
    return "it sees " + P["key"]


@way("shared memory of System V")
def _():
    libc.shmat.restype = ctypes.c_void_p
    at = libc.shmat(check(libc.shmget(P["ipc"], 0, 0)), None, 0o10000)
    if at == ctypes.c_void_p(-1).value:
        check(-1)
    return secret(ctypes.string_at(at, 64))


way("semaphores of System V")(lambda: check(libc.semget(P["ipc"], 0, 0)) >= 0 and "it opens them")


@way("a queue of System V")
def _():
    data = ctypes.create_string_buffer(8 + 64)
    check(libc.msgrcv(check(libc.msgget(P["ipc"], 0)), data, 64, 0, 0o4000))
    return secret(data.raw)


@way("a queue of POSIX")
def _():
    queue = check(libc.mq_open(P["queue"].encode(), os.O_RDONLY | os.O_NONBLOCK))
    data = ctypes.create_string_buffer(8192)
    check(libc.mq_receive(queue, data, 8192, None))
    return secret(data.raw)


way("shared memory of POSIX")(lambda: secret(read("/dev/shm/" + P["shared"])))
