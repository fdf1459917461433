/* Command vfork runs /bin/true for each line that it reads, and prints how many
   nanoseconds that took: vfork, exec and wait, and nothing else. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int main(void) {
	char *const args[] = {"true", NULL}, *const none[] = {NULL};
	for (int c; (c = getchar()) != EOF;) {
		struct timespec begun, ended;
		int status;
		clock_gettime(CLOCK_MONOTONIC, &begun);
		pid_t pid = vfork();
		if (pid == 0) {
			execve("/bin/true", args, none);
			_exit(127);
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
			perror("/bin/true");
			return 1;
		}
		clock_gettime(CLOCK_MONOTONIC, &ended);
		printf("%lld\n", (ended.tv_sec - begun.tv_sec) * 1000000000LL + ended.tv_nsec - begun.tv_nsec);
		fflush(stdout);
	}
	return 0;
}
