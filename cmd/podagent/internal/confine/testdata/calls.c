// Calls makes the system calls of the test, and prints the name and the error of each. Its
// arguments are the pid of a process of the same user, and a thread of that. No call changes
// anything if it is allowed.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/netlink.h>
#include <linux/sockios.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void say(const char *name, long r) {
	printf("%s: %s\n", name, r == -1 ? strerrorname_np(errno) : "ok");
	fflush(stdout);
}

// wide is a number with bits that the kernel ignores in an int.
#define wide(n) ((1L << 32) | (unsigned)(n))

int main(int argc, char **argv) {
	pid_t other = atoi(argv[1]), thread = atoi(argv[2]), self = getpid();
	struct rlimit limit;
	struct sched_param param = {0};
	char attr[64] = {56};

	syscall(SYS_prlimit64, 0, RLIMIT_CORE, NULL, &limit);
	say("prlimit64 of itself", syscall(SYS_prlimit64, 0, RLIMIT_CORE, &limit, NULL));
	say("prlimit64 that only asks", syscall(SYS_prlimit64, other, RLIMIT_CORE, NULL, &limit));
	say("prlimit64 of another", syscall(SYS_prlimit64, other, RLIMIT_CORE, &limit, NULL));
	say("prlimit64 of another, wide", syscall(SYS_prlimit64, wide(other), RLIMIT_CORE, &limit, NULL));

	say("setpriority of itself", syscall(SYS_setpriority, PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0)));
	say("setpriority of another", syscall(SYS_setpriority, PRIO_PROCESS, other, getpriority(PRIO_PROCESS, other)));
	say("setpriority of another, wide", syscall(SYS_setpriority, wide(PRIO_PROCESS), wide(other), getpriority(PRIO_PROCESS, other)));
	say("setpriority of a user", syscall(SYS_setpriority, PRIO_USER, 54321, 0));
	say("setpriority of a user, wide", syscall(SYS_setpriority, wide(PRIO_USER), 0x100000000L | 54321, 0));
	say("sched_setscheduler of itself", syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, &param));
	say("sched_setscheduler of another", syscall(SYS_sched_setscheduler, other, SCHED_OTHER, &param));
	say("sched_setparam of another", syscall(SYS_sched_setparam, other, &param));
	say("sched_setattr of another", syscall(SYS_sched_setattr, other, attr, 0));
	say("ioprio_set of itself", syscall(SYS_ioprio_set, 1, 0, 0));
	say("ioprio_set of another", syscall(SYS_ioprio_set, 1, other, 0));
	say("ioprio_set of a user", syscall(SYS_ioprio_set, 3, 54321, 0));

	say("unshare", syscall(SYS_unshare, CLONE_FS));
	// These flags are invalid together, so no namespace is made if the call is allowed.
	say("unshare of the user namespace", syscall(SYS_unshare, CLONE_NEWUSER | CLONE_PARENT_SETTID));
	say("unshare of the user namespace, wide", syscall(SYS_unshare, wide(CLONE_NEWUSER | CLONE_PARENT_SETTID)));
	say("clone of the user namespace", syscall(SYS_clone, CLONE_NEWUSER | CLONE_FS | SIGCHLD, 0, 0, 0, 0));
	say("clone of the user namespace, wide", syscall(SYS_clone, wide(CLONE_NEWUSER | CLONE_FS | SIGCHLD), 0, 0, 0, 0));
	// So are these.
	say("clone as a sibling", syscall(SYS_clone, CLONE_PARENT | CLONE_SIGHAND | SIGCHLD, 0, 0, 0, 0));
	say("clone as a sibling, wide", syscall(SYS_clone, wide(CLONE_PARENT | CLONE_SIGHAND | SIGCHLD), 0, 0, 0, 0));
	say("clone3", syscall(SYS_clone3, 0, 0));

	say("bpf", syscall(SYS_bpf, 0, 0, 0));
	say("io_uring_setup", syscall(SYS_io_uring_setup, 1, 0));
	say("io_uring_enter", syscall(SYS_io_uring_enter, -1, 0, 0, 0, 0, 0));
	say("io_uring_register", syscall(SYS_io_uring_register, -1, 0, 0, 0));
	say("keyctl", syscall(SYS_keyctl, 0, -1, 0));
	say("add_key", syscall(SYS_add_key, 0, 0, 0, 0, 0));
	say("request_key", syscall(SYS_request_key, 0, 0, 0, 0));
	say("userfaultfd", syscall(SYS_userfaultfd, -1));
	say("syslog", syscall(SYS_syslog, -1, 0, 0));

	say("netlink of routes", syscall(SYS_socket, AF_NETLINK, SOCK_RAW, NETLINK_ROUTE));
	say("netlink of sockets", syscall(SYS_socket, AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG));
	say("netlink of sockets, wide", syscall(SYS_socket, wide(AF_NETLINK), wide(SOCK_RAW), wide(NETLINK_SOCK_DIAG)));
	say("vsock", syscall(SYS_socket, AF_VSOCK, SOCK_STREAM, 0));
	say("vsock, wide", syscall(SYS_socket, wide(AF_VSOCK), wide(SOCK_STREAM), wide(0)));
	say("netlink of generic families", syscall(SYS_socket, AF_NETLINK, SOCK_RAW, NETLINK_GENERIC));
	say("TCP", syscall(SYS_socket, AF_INET, SOCK_STREAM, 0));
	say("UDP", syscall(SYS_socket, AF_INET, SOCK_DGRAM, 0));
	say("unix", syscall(SYS_socket, AF_UNIX, SOCK_STREAM, 0));

	say("prctl", prctl(PR_SET_NAME, "calls"));
	say("prctl of the memory's layout", syscall(SYS_prctl, PR_SET_MM, PR_SET_MM_MAP, 0, 0, 0));
	say("prctl of the memory's layout, wide", syscall(SYS_prctl, wide(PR_SET_MM), PR_SET_MM_MAP, 0, 0, 0));

	pid_t child = fork();
	if (child == 0) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		_exit(0);
	}
	int status;
	waitpid(child, &status, 0);
	say("ptrace of a child", ptrace(PTRACE_CONT, child, 0, 0));
	waitpid(child, &status, 0);
	say("kill of itself", kill(self, 0));

	siginfo_t info = {.si_code = SI_QUEUE};
	struct f_owner_ex owner = {F_OWNER_TID, thread};
	int fds[2], proc = open("/proc/self", O_RDONLY | O_DIRECTORY);
	if (pipe(fds) == -1)
		return 1;
	say("kill of the thread", kill(thread, 0));
	say("tkill of the thread", syscall(SYS_tkill, thread, 0));
	say("tgkill of the thread", syscall(SYS_tgkill, other, thread, 0));
	say("rt_sigqueueinfo of the thread", syscall(SYS_rt_sigqueueinfo, thread, 0, &info));
	say("rt_tgsigqueueinfo of the thread", syscall(SYS_rt_tgsigqueueinfo, other, thread, 0, &info));
	say("pidfd_open of the thread", syscall(SYS_pidfd_open, thread, O_EXCL));
	say("pidfd_open of itself", syscall(SYS_pidfd_open, self, 0));
	say("fcntl for the thread", fcntl(fds[0], F_SETOWN_EX, &owner));
	say("F_SETOWN for the thread", fcntl(fds[0], F_SETOWN, thread));
	say("F_SETOWN for the thread, wide", syscall(SYS_fcntl, fds[0], wide(F_SETOWN), wide(thread)));
	say("fcntl for itself", fcntl(fds[0], F_SETOWN, self));
	say("fcntl that asks", fcntl(fds[0], F_GETOWN));
	int leased = memfd_create("leased", MFD_CLOEXEC);
	say("F_SETLEASE", fcntl(leased, F_SETLEASE, F_WRLCK));
	say("F_SETLEASE, wide", syscall(SYS_fcntl, leased, wide(F_SETLEASE), F_WRLCK));
	say("F_GETLEASE", fcntl(leased, F_GETLEASE));
	int sockets[2], count;
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == -1)
		return 1;
	say("FIOSETOWN for the thread", ioctl(sockets[0], FIOSETOWN, &thread));
	say("SIOCSPGRP for the thread", ioctl(sockets[0], SIOCSPGRP, &thread));
	say("SIOCSPGRP for the thread, wide", syscall(SYS_ioctl, sockets[0], wide(SIOCSPGRP), &thread));
	say("TIOCSTI", ioctl(sockets[0], TIOCSTI, "x"));
	say("TIOCSTI, wide", syscall(SYS_ioctl, sockets[0], wide(TIOCSTI), "x"));
	say("FIOGETOWN", ioctl(sockets[0], FIOGETOWN, &count));
	say("FIONREAD", ioctl(sockets[0], FIONREAD, &count));
	say("pidfd_send_signal", syscall(SYS_pidfd_send_signal, proc, 0, NULL, 0));
#ifdef __x86_64__
	long r;
	say("getpid of x32", syscall(0x40000000 | SYS_getpid));
	__asm__ volatile("int $0x80" : "=a"(r) : "a"(20L) : "memory", "r8", "r9", "r10", "r11"); // getpid of i386
	printf("getpid of i386: %s\n", r == -ENOSYS ? "ENOSYS" : "ok");
#endif
	return 0;
}
