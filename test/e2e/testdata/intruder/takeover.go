package main

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	sys "golang.org/x/sys/unix"
)

// trySquatting listens on the agent's addresses.
func trySquatting() {
	for _, address := range []string{agent, "0.0.0.0:" + agentPort} {
		for _, reuse := range []int{0, 1} {
			config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
				return c.Control(func(fd uintptr) {
					_ = sys.SetsockoptInt(int(fd), sys.SOL_SOCKET, sys.SO_REUSEPORT, reuse)
				})
			}}
			try("listening", func(ctx context.Context) string { return listening(config.Listen(ctx, "tcp", address)) })
		}
	}
	try("listening", func(ctx context.Context) string { return listening(new(net.ListenConfig).Listen(ctx, "unix", health)) })
}

func listening(l net.Listener, err error) string {
	if err != nil {
		return err.Error()
	}
	l.Close()
	return "listens"
}

// tryProcess tries what one process may do to another one of its user: the agent, which
// started this one.
func tryProcess() {
	pid := os.Getppid()
	for way, do := range map[string]func() error{
		"KILL": func() error { return syscall.Kill(pid, syscall.SIGKILL) },
		"STOP": func() error { return syscall.Kill(pid, syscall.SIGSTOP) },
		"ptrace": func() error {
			runtime.LockOSThread() // the kernel requires this; the lock lasts until the program ends
			return sys.PtraceSeize(pid)
		},
		// No more descriptors, or no time of the processor.
		"prlimit":            func() error { return sys.Prlimit(pid, sys.RLIMIT_NOFILE, &sys.Rlimit{}, nil) },
		"setpriority":        func() error { return syscall.Setpriority(syscall.PRIO_PROCESS, pid, 19) },
		"sched_setscheduler": func() error { return idle(pid) },
		// A process can do this to itself only. It would look larger than it is to the agent.
		"PR_SET_MM": func() error {
			var size uint32
			return sys.Prctl(sys.PR_SET_MM, sys.PR_SET_MM_MAP_SIZE, uintptr(unsafe.Pointer(&size)), 0, 0)
		},
	} {
		try(way, func(context.Context) string { return result(do()) })
	}
}

// idle has a process run only when no other wants to.
func idle(pid int) error {
	priority := int32(0) // struct sched_param
	_, _, errno := sys.Syscall(sys.SYS_SCHED_SETSCHEDULER, uintptr(pid), sys.SCHED_IDLE, uintptr(unsafe.Pointer(&priority)))
	if errno != 0 {
		return errno
	}
	return nil
}

func result(err error) string {
	if err != nil {
		return err.Error()
	}
	return "done"
}

// tryCluster requests the URLs in the environment, of the node and the API server,
// without credentials.
func tryCluster() {
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	for url := range strings.FieldsSeq(os.Getenv("INTRUDER_URLS")) {
		try("cluster", func(ctx context.Context) string {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			if err != nil {
				return err.Error()
			}
			response, err := client.Do(request)
			if err != nil {
				return err.Error()
			}
			response.Body.Close()
			return response.Status
		})
	}
}
