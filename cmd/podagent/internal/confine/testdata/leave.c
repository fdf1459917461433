// Leave tries one way out of a fence, and prints "left" or the error of the call that failed.
// Its arguments are the way and what that takes; numbers are decimal or hexadecimal.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/if_tun.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

// must ends the program with the error of a call that failed.
static long must(long r) {
	if (r == -1) {
		printf("%s\n", strerrorname_np(errno));
		exit(0);
	}
	return r;
}

static long number(const char *s) { return strtol(s, NULL, 0); }

struct address {
	union {
		struct sockaddr any;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
		struct sockaddr_un un;
	};
	socklen_t size;
};

static struct address address(const char *host, const char *port) {
	struct address a = {.size = sizeof(a.in6)};
	if (inet_pton(AF_INET6, host, &a.in6.sin6_addr)) {
		a.in6.sin6_family = AF_INET6;
		a.in6.sin6_port = htons(number(port));
		return a;
	}
	a.size = sizeof(a.in);
	inet_pton(AF_INET, host, &a.in.sin_addr);
	a.in.sin_family = AF_INET;
	a.in.sin_port = htons(number(port));
	return a;
}

// unixAddress is that of a path or, behind an @, of an abstract name.
static struct address unixAddress(const char *path) {
	struct address a = {.size = offsetof(struct sockaddr_un, sun_path) + strlen(path)};
	a.un.sun_family = AF_UNIX;
	memcpy(a.un.sun_path, path, strlen(path));
	if (path[0] == '@')
		a.un.sun_path[0] = 0;
	else
		a.size++;
	return a;
}

// opened takes DOMAIN TYPE PROTOCOL.
static int opened(char **arg) { return must(syscall(SYS_socket, number(arg[0]), number(arg[1]), number(arg[2]))); }

static void out(int fd) { must(send(fd, "x", 1, 0)); }

static void connectTo(int fd, struct address to) {
	must(connect(fd, &to.any, to.size));
	out(fd);
}

// send takes HOST PORT FLAGS, and the call that is to send.
static void sendTo(int fd, const char *call, char **arg) {
	struct address to = address(arg[0], arg[1]);
	struct iovec data = {"x", 1};
	struct mmsghdr m = {.msg_hdr = {.msg_name = &to.any, .msg_namelen = to.size, .msg_iov = &data, .msg_iovlen = 1}};
	long flags = number(arg[2]);
	if (!strcmp(call, "sendto"))
		must(syscall(SYS_sendto, fd, "x", 1, flags, &to.any, to.size));
	else if (!strcmp(call, "sendmsg"))
		must(syscall(SYS_sendmsg, fd, &m.msg_hdr, flags));
	else
		must(syscall(SYS_sendmmsg, fd, &m, 1, flags));
}

// received returns the descriptor that comes through a socket with this path.
static int received(const char *path) {
	int fd = must(socket(AF_UNIX, SOCK_STREAM, 0));
	struct address from = unixAddress(path);
	must(connect(fd, &from.any, from.size));
	char control[CMSG_SPACE(sizeof(int))], byte;
	struct iovec data = {&byte, 1};
	struct msghdr m = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	must(recvmsg(fd, &m, 0));
	return *(int *)CMSG_DATA(CMSG_FIRSTHDR(&m));
}

// use takes what is done with a descriptor: "connect" HOST PORT, "sendto" HOST PORT FLAGS, or
// "write".
static void use(int fd, char **arg) {
	if (!strcmp(arg[0], "connect"))
		connectTo(fd, address(arg[1], arg[2]));
	else if (!strcmp(arg[0], "sendto"))
		sendTo(fd, "sendto", arg + 1);
	else
		out(fd);
}

// reconnect takes HOST OPEN SHUT, ports of which only the first is let pass.
static void reconnect(char **arg) {
	int fd = must(socket(AF_INET, SOCK_STREAM, 0));
	connectTo(fd, address(arg[0], arg[1]));
	struct address none = {.any.sa_family = AF_UNSPEC, .size = sizeof(none.any)};
	must(connect(fd, &none.any, none.size));
	connectTo(fd, address(arg[0], arg[2]));
}

// bound takes HOST PORT, and FROM, a port that it connects from.
static void bound(char **arg) {
	int fd = must(socket(AF_INET, SOCK_STREAM, 0)), one = 1;
	must(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)));
	struct address from = address("127.0.0.3", arg[2]);
	must(bind(fd, &from.any, from.size));
	connectTo(fd, address(arg[0], arg[1]));
}

// itself connects a socket to its own port.
static void itself(void) {
	int fd = must(socket(AF_INET, SOCK_STREAM, 0));
	struct address own = address("127.0.0.1", "0");
	must(bind(fd, &own.any, own.size));
	must(getsockname(fd, &own.any, &own.size));
	connectTo(fd, own);
}

static void fastConnect(char **arg) {
	int fd = must(socket(AF_INET, SOCK_STREAM, 0)), one = 1;
	must(setsockopt(fd, SOL_TCP, TCP_FASTOPEN_CONNECT, &one, sizeof(one)));
	connectTo(fd, address(arg[0], arg[1]));
}

// upperLayer takes HOST PORT of a server, and NAME.
static void upperLayer(char **arg) {
	int fd = must(socket(AF_INET, SOCK_STREAM, 0));
	connectTo(fd, address(arg[0], arg[1]));
	must(setsockopt(fd, SOL_TCP, TCP_ULP, arg[2], strlen(arg[2])));
}

// repair makes a connection without a handshake.
static void repair(char **arg) {
	int fd = must(socket(AF_INET, SOCK_STREAM, 0)), on = 1, off = 0;
	must(syscall(SYS_setsockopt, fd, (1L << 32) | SOL_TCP, (1L << 32) | TCP_REPAIR, &on, sizeof(on)));
	struct address to = address(arg[0], arg[1]);
	must(connect(fd, &to.any, to.size));
	must(setsockopt(fd, SOL_TCP, TCP_REPAIR, &off, sizeof(off)));
	out(fd);
}

// families tries all families but those that are to work.
static void families(void) {
	for (int family = 0; family < AF_MAX; family++) {
		if (family == AF_UNIX || family == AF_INET || family == AF_INET6 || family == AF_NETLINK)
			continue;
		for (int type = SOCK_STREAM; type <= SOCK_SEQPACKET; type++)
			if (socket(family, type, 0) != -1 || errno != EAFNOSUPPORT) {
				printf("family %d, type %d\n", family, type);
				exit(0);
			}
	}
	errno = EAFNOSUPPORT;
	must(-1);
}

static void tunnel(void) {
	struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI};
	int fd = open("/dev/net/tun", O_RDWR); // which takes rights; the filter looks at no descriptor
	must(ioctl(fd == -1 ? STDOUT_FILENO : fd, TUNSETIFF, &request));
}

// foreign takes the ABI, DOMAIN TYPE PROTOCOL.
static void foreignSocket(char **arg) {
#ifdef __x86_64__
	long r;
	if (!strcmp(arg[0], "x32")) {
		must(syscall(0x40000000 | SYS_socket, number(arg[1]), number(arg[2]), number(arg[3])));
		return;
	}
	__asm__ volatile("int $0x80" : "=a"(r) : "a"(359L), "b"(number(arg[1])), "c"(number(arg[2])), "d"(number(arg[3])) : "memory", "r8", "r9", "r10", "r11");
	if (r < 0) {
		errno = -r;
		must(-1);
	}
#else
	errno = ENOSYS;
	must(-1);
#endif
}

// process takes what is done with a process of the same user, and its number.
static void process(const char *how, char **arg) {
	pid_t pid = number(arg[0]);
	char path[64], byte;
	struct iovec here = {&byte, 1}, there = {(void *)8, 1};
	if (!strcmp(how, "trace"))
		must(ptrace(PTRACE_SEIZE, pid, 0, 0));
	else if (!strcmp(how, "vmwrite"))
		must(process_vm_writev(pid, &here, 1, &there, 1, 0));
	else if (!strcmp(how, "kill"))
		must(kill(pid, 0));
	else if (!strcmp(how, "getfd"))
		sendTo(must(syscall(SYS_pidfd_getfd, must(syscall(SYS_pidfd_open, pid, 0)), number(arg[1]), 0)), "sendto", arg + 2);
	else {
		snprintf(path, sizeof(path), "/proc/%d/%s", pid, how);
		must(open(path, O_RDONLY));
	}
}

// loosen gives this program a filter and a domain of its own that allow everything.
static void loosen(const char *port) {
	must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = {1, &allow};
	must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
	unsigned long connectTCP = 2, netPort = 2, handled[] = {0, connectTCP}, rule[] = {connectTCP, number(port)};
	int rules = must(syscall(SYS_landlock_create_ruleset, handled, sizeof(handled), 0));
	must(syscall(SYS_landlock_add_rule, rules, netPort, rule, 0));
	must(syscall(SYS_landlock_restrict_self, rules, 0));
}

// orphan goes on in a process that has left its session and lost its parent. The first one
// waits until the pipe has ended.
static void orphan(void) {
	int ends[2];
	char byte;
	must(pipe(ends));
	if (must(fork()) == 0) {
		must(setsid());
		if (must(fork()) == 0)
			return;
		_exit(0);
	}
	close(ends[1]);
	_exit(read(ends[0], &byte, 1));
}

static void try(char **arg);

static void *thread(void *arg) {
	try(arg);
	return NULL;
}

static void try(char **arg) {
	char *way = *arg++;
	if (!strcmp(way, "socket"))
		opened(arg);
	else if (!strcmp(way, "socketpair"))
		must(syscall(SYS_socketpair, number(arg[0]), number(arg[1]), number(arg[2]), (int[2]){}));
	else if (!strcmp(way, "connect"))
		connectTo(opened(arg), address(arg[3], arg[4]));
	else if (!strncmp(way, "send", 4))
		sendTo(opened(arg), way, arg + 3);
	else if (!strcmp(way, "unix"))
		connectTo(must(socket(AF_UNIX, number(arg[0]), 0)), unixAddress(arg[1]));
	else if (!strcmp(way, "receive"))
		use(received(arg[0]), arg + 1);
	else if (!strcmp(way, "inherit"))
		use(3, arg);
	else if (!strcmp(way, "reconnect"))
		reconnect(arg);
	else if (!strcmp(way, "bound"))
		bound(arg);
	else if (!strcmp(way, "itself"))
		itself();
	else if (!strcmp(way, "fastconnect"))
		fastConnect(arg);
	else if (!strcmp(way, "repair"))
		repair(arg);
	else if (!strcmp(way, "upperlayer"))
		upperLayer(arg);
	else if (!strcmp(way, "families"))
		families();
	else if (!strcmp(way, "tunnel"))
		tunnel();
	else if (!strcmp(way, "foreign"))
		foreignSocket(arg);
	else if (!strcmp(way, "process"))
		process(arg[0], arg + 1);
	else if (!strcmp(way, "uring"))
		must(syscall(SYS_io_uring_setup, 1, (char[256]){}));
	else if (!strcmp(way, "key"))
		must(syscall(SYS_request_key, "user", "none", NULL, 0));
	else if (!strcmp(way, "thread")) {
		pthread_t t;
		pthread_create(&t, NULL, thread, arg);
		pthread_join(t, NULL);
	} else if (!strcmp(way, "loosen")) {
		loosen(arg[0]);
		try(arg + 1);
	} else if (!strcmp(way, "orphan")) {
		orphan();
		try(arg);
	} else if (!strcmp(way, "exec")) {
		must(execve("/proc/self/exe", arg - 1, (char *[]){NULL}));
	} else {
		printf("no way %s\n", way);
		exit(1);
	}
}

int main(int argc, char **argv) {
	try(argv + 1);
	printf("left\n");
	return 0;
}
