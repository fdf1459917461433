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

// tryProcess tries what one process may do to another one, the agent.
func tryProcess() {
	try("KILL", func(context.Context) string { return result(syscall.Kill(1, syscall.SIGKILL)) })
	try("STOP", func(context.Context) string { return result(syscall.Kill(1, syscall.SIGSTOP)) })
	try("ptrace", func(context.Context) string {
		runtime.LockOSThread() // the kernel requires this; the lock lasts until the program ends
		return result(sys.PtraceSeize(1))
	})
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
