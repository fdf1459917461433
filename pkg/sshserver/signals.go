package sshserver

import (
	"fmt"
	"syscall"

	"golang.org/x/crypto/ssh"
)

// The signals that have names in SSH (RFC 4254, 6.10), with their numbers in Linux, wherever this
// program runs.
var signals = map[ssh.Signal]syscall.Signal{
	ssh.SIGHUP: 1, ssh.SIGINT: 2, ssh.SIGQUIT: 3, ssh.SIGILL: 4, ssh.SIGABRT: 6, ssh.SIGFPE: 8, ssh.SIGKILL: 9,
	ssh.SIGUSR1: 10, ssh.SIGSEGV: 11, ssh.SIGUSR2: 12, ssh.SIGPIPE: 13, ssh.SIGALRM: 14, ssh.SIGTERM: 15,
}

const (
	hangUp     = syscall.Signal(1)
	brokenPipe = syscall.Signal(13)
)

// signalName returns the name of a signal in SSH. Others than the standard's have one of ours.
func signalName(number int) string {
	for name, n := range signals {
		if int(n) == number {
			return string(name)
		}
	}
	return fmt.Sprintf("SIG%d@podagent", number)
}
