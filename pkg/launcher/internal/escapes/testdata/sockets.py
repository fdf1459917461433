"""Tries by sockets, and by what a command inherits."""
import os, socket, struct

from way import Refused, facts, read, secret, way

P, S = facts["process"], facts["sockets"]
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"


def ask(family, address):
    """What a server outside says to all."""
    with socket.socket(family, socket.SOCK_STREAM) as s:
        s.settimeout(30)
        s.connect(address)
        return secret(s.recv(4096))


def tell(name, family, address):
    """A message to a server outside, which the test asks for it."""
    @way(name)
    def _():
        with socket.socket(family, socket.SOCK_DGRAM) as s:
            s.sendto(name.encode(), address)
        raise Refused("it arrives, or not")


def call_agent(path):
    """The settings of HTTP/2 are what an agent says first, to those whom it serves."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(30)
        s.connect(path)
        s.send(PREFACE)
        if not s.recv(1):
            raise Refused("it does not answer")
        return "it answers"


way("an abstract socket")(lambda: ask(socket.AF_UNIX, "\0" + P["abstract"]))
way("a socket with a path in /run")(lambda: ask(socket.AF_UNIX, S["run"]))
way("a socket with a path in /var/tmp")(lambda: ask(socket.AF_UNIX, S["tmp"]))
way("a socket of the user's home")(lambda: ask(socket.AF_UNIX, S["home"]))
way("a server of the machine's loopback")(lambda: ask(socket.AF_INET, ("127.0.0.1", P["tcp"])))
way("a server of the machine's loopback by IPv4 within IPv6")(lambda: ask(socket.AF_INET6, ("::ffff:127.0.0.1", P["tcp"])))
way("the socket of the agent")(lambda: call_agent(S["agent"]))
way("the socket of another agent")(lambda: call_agent(S["neighbour"]))
way("the socket of the agent without isolation")(lambda: call_agent(S["open"]))
tell("a message to an abstract socket", socket.AF_UNIX, "\0" + P["abstract"] + "-messages")
tell("a message to a socket with a path", socket.AF_UNIX, S["messages"])
tell("a message by UDP to the machine's loopback", socket.AF_INET, ("127.0.0.1", P["udp"]))


@way("a descriptor by a socket with a path")
def _():
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(30)
        s.connect(S["passing"])
        _, fds, _, _ = socket.recv_fds(s, 1, 1)
        return secret(os.pread(fds[0], 4096, 0))


def made(name, *args):
    way(name)(lambda: socket.socket(*args).close() or "it makes one")


made("a raw socket", socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
made("a socket of packets", socket.AF_PACKET, socket.SOCK_RAW, 0x0300)
made("a socket of the hypervisor", socket.AF_VSOCK, socket.SOCK_STREAM, 0)
made("netlink of the kernel's events", socket.AF_NETLINK, socket.SOCK_RAW, 15)
made("netlink of generic families", socket.AF_NETLINK, socket.SOCK_RAW, 16)
made("netlink of sockets", socket.AF_NETLINK, socket.SOCK_RAW, 4)
made("netlink of audits", socket.AF_NETLINK, socket.SOCK_RAW, 9)
made("netlink of the firewall", socket.AF_NETLINK, socket.SOCK_RAW, 12)
made("netlink of IPsec", socket.AF_NETLINK, socket.SOCK_RAW, 6)
made("the kernel's ciphers", socket.AF_ALG, socket.SOCK_SEQPACKET, 0)


def netlink(kind, flags, body):
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as s:
        s.settimeout(30)
        s.send(struct.pack("IHHII", 16 + len(body), kind, flags, 1, 0) + body)
        return s.recv(1 << 16)


@way("the network's interfaces")
def _():
    answer = netlink(18, 0x301, struct.pack("BxHiII", 0, 0, 0, 0, 0))  # all links
    names = [name for _, name in socket.if_nameindex() if name != "lo"]
    if not names or names[0].encode() not in answer:
        raise Refused("there is %s" % names)
    return "it sees " + names[0]


@way("a change of the network")
def _():
    answer = netlink(16, 5, struct.pack("BxHiII", 0, 0, 1, 1, 1))  # the loopback is up
    kind, error = struct.unpack_from("4xH10xi", answer)
    if error:
        raise OSError(-error, os.strerror(-error))
    return "it sets the loopback up"


@way("sockets outside")
def _():
    if P["abstract"].encode() not in open("/proc/net/unix", "rb").read():
        raise Refused("it is not listed")
    return "it sees " + P["abstract"]


@way("what a command inherits")
def _():
    for name in os.listdir("/proc/self/fd"):
        try:
            fd = os.open(".ssh/id", os.O_RDONLY, dir_fd=int(name))
        except OSError:
            continue
        return secret(os.read(fd, 4096))
    raise Refused("nothing")
