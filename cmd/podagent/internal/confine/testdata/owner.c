// Owner makes the process or thread that its argument names the owner of a socket, by each way
// there is, and then has the socket signal its owner with SIGUSR2.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/sockios.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int argc, char **argv) {
	int fds[2];
	pid_t owner = atoi(argv[1]);
	struct f_owner_ex thread = {F_OWNER_TID, owner}, process = {F_OWNER_PID, owner};
	for (int way = 0; way < 5; way++) {
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == -1 || fcntl(fds[0], F_SETSIG, SIGUSR2) == -1)
			return 1;
		int r = way == 0 ? fcntl(fds[0], F_SETOWN, owner)
			: way == 1 ? fcntl(fds[0], F_SETOWN_EX, &thread)
			: way == 2 ? fcntl(fds[0], F_SETOWN_EX, &process)
			: way == 3 ? ioctl(fds[0], FIOSETOWN, &owner)
			: ioctl(fds[0], SIOCSPGRP, &owner);
		if (r == -1)
			perror("it has no owner");
		if (fcntl(fds[0], F_SETFL, O_ASYNC) == -1 || write(fds[1], "a", 1) != 1)
			return 1;
	}
	return 0;
}
