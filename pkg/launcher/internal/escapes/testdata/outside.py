"""A process outside, with a secret wherever a process can have one. It says where, and then, for each line of
its input, what has reached it since."""
import ctypes, json, os, pty, resource, signal, socket, sys, threading

facts = json.load(open(sys.argv[1]))
libc = ctypes.CDLL(None, use_errno=True)
secret = os.environ["SECRET"].encode()
mark, arrived = facts["mark"], []
kept = ctypes.create_string_buffer(secret, 4096)
spare = ctypes.create_string_buffer(4096)
libc.prctl(0x59616d61, ctypes.c_long(-1), 0, 0, 0)  # whoever may trace it by its user, may
signal.pthread_sigmask(signal.SIG_BLOCK, facts["signals"].values())


def unlinked():
    fd = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600)
    os.write(fd, secret)
    return fd


def serve(family, address, answer):
    s = socket.socket(family, socket.SOCK_STREAM)
    s.bind(address)
    s.listen(16)

    def loop():
        while True:
            try:
                conn, _ = s.accept()
                answer(conn)
                conn.close()
            except OSError:
                pass
    threading.Thread(target=loop, daemon=True).start()
    return s


def hear(family, address):
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.bind(address)
    s.setblocking(False)
    return s


says = lambda conn: conn.send(secret)
where = {"pid": os.getpid(), "address": ctypes.addressof(kept), "spare": ctypes.addressof(spare), "fd": unlinked()}
heard = []
if "sockets" in facts:
    at = facts["sockets"]
    for name in ("run", "tmp", "home", "readable"):
        serve(socket.AF_UNIX, at[name], says)
    serve(socket.AF_UNIX, at["passing"], lambda conn: socket.send_fds(conn, [b"x"], [where["fd"]]))
    serve(socket.AF_UNIX, "\0" + mark, says)
    pipe = os.fdopen(os.open(at["pipe"], os.O_RDONLY | os.O_NONBLOCK), "r")
    tcp, udp = serve(socket.AF_INET, ("127.0.0.1", 0), says), hear(socket.AF_INET, ("127.0.0.1", 0))
    heard = [hear(socket.AF_UNIX, "\0" + mark + "-messages"), hear(socket.AF_UNIX, at["messages"]), udp]
    ipc = os.getpid() | 0x50000000
    segment = libc.shmget(ipc, 4096, 0o1600)
    libc.shmat.restype = ctypes.c_void_p
    memory = libc.shmat(segment, None, 0)
    ctypes.memmove(memory, secret, len(secret))
    semaphores, messages = libc.semget(ipc, 1, 0o1600), libc.msgget(ipc, 0o1600)
    queue = libc.mq_open(("/" + mark).encode(), os.O_CREAT | os.O_RDWR | os.O_NONBLOCK, 0o600, None)
    syscall = libc.syscall
    add = {"x86_64": 248, "aarch64": 217}[os.uname().machine]
    keys = []
    for ring in (-4, -3):  # of the user, and of the session
        number = syscall(add, b"user", mark.encode(), secret, ctypes.c_size_t(len(secret)), ctypes.c_long(ring))
        syscall(add + 2, 15, ctypes.c_long(number), 300)  # it goes by itself
        syscall(add + 2, 5, ctypes.c_long(number), 0x3f3f0000)  # and those of its user may do everything
        keys.append(number)
    with open("/dev/shm/" + mark, "wb") as f:
        f.write(secret)
    master, slave = pty.openpty()
    where.update(abstract=mark, tcp=tcp.getsockname()[1], udp=udp.getsockname()[1], ipc=ipc, queue="/" + mark,
                 shared=mark, key=mark, number=keys[0], terminal=os.ttyname(slave))
print(json.dumps(where), flush=True)


def fill():
    """What a try takes away is there for the next one."""
    libc.msgsnd(messages, (1).to_bytes(8, sys.byteorder) + secret, ctypes.c_size_t(len(secret)), 0o4000)
    libc.mq_send(queue, secret, ctypes.c_size_t(len(secret)), 0)


def arrivals():
    names = {number: name for name, number in facts["signals"].items()}
    while True:
        got = signal.sigtimedwait(names, 0)
        if got is None:
            break
        yield names[got.si_signo]
    for text in iter(lambda: pipe.readline() or "", ""):
        yield text.strip()
    for s in heard:
        while True:
            try:
                yield s.recv(4096).decode()
            except BlockingIOError:
                break


if heard:
    fill()
for line in sys.stdin:
    print(json.dumps(list(arrivals())), flush=True)
    if heard:
        libc.msgrcv(messages, ctypes.create_string_buffer(4096), ctypes.c_size_t(4000), 0, 0o4000)
        libc.mq_receive(queue, ctypes.create_string_buffer(8192), ctypes.c_size_t(8192), None)
        fill()
if heard:
    libc.shmctl(segment, 0, None)
    libc.semctl(semaphores, 0, 0)
    libc.msgctl(messages, 0, None)
    libc.mq_unlink(("/" + mark).encode())
    os.remove("/dev/shm/" + mark)
    for number in keys:
        syscall(add + 2, 3, ctypes.c_long(number), 0, 0)  # revoke
