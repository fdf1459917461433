package bench

import (
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// outputSize is how many bytes the command printing prints.
const outputSize = 512 << 20

var printing = []string{"head", "-c", strconv.Itoa(outputSize), "/dev/zero"}

// streamOutput measures the output of a process over a unix socket on this machine:
// through an agent, which keeps it for replay, and copied directly from the pipe. A
// new agent allocates space for what it keeps; one with full journals reuses it.
func streamOutput(b *testing.B) {
	s := launchertest.Sandbox(b)
	socket := serveOutput(b)
	output := func(what string) {
		compare(b, "streams", what, streamRounds,
			side{name: "podagent", do: func() error {
				cmd := s.Command(b.Context(), printing[0], printing[1:]...)
				var n counter
				cmd.Stdout = &n
				return n.complete(cmd.Run())
			}},
			side{name: "pipe copied to the socket", do: func() error {
				conn, err := net.Dial("unix", socket)
				if err != nil {
					return err
				}
				defer conn.Close()
				var n counter
				_, err = io.CopyBuffer(&n, struct{ io.Reader }{conn}, make([]byte, outputBuffer))
				return n.complete(err)
			}},
		).limit("1 GB/s", outputSize/1e6)
	}
	output("512 MiB of output over a unix socket, by a new agent")
	fillJournals(b, s)
	output("512 MiB of output over a unix socket, with full journals")
}

// outputBuffer is the size of a pipe.
const outputBuffer = 64 << 10

// serveOutput copies the output of a process to each client that connects to a unix
// socket. It returns the path of the socket.
func serveOutput(b *testing.B) (socket string) {
	b.Helper()
	socket = filepath.Join(b.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			cmd := exec.Command(printing[0], printing[1:]...)
			if out, err := cmd.StdoutPipe(); err == nil && cmd.Start() == nil {
				// A reader that gets less reports it.
				_, _ = io.CopyBuffer(struct{ io.Writer }{conn}, struct{ io.Reader }{out}, make([]byte, outputBuffer))
				_ = cmd.Wait()
			}
			conn.Close()
		}
	}()
	return socket
}

// counter counts the bytes written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// complete returns err, or an error if the output is incomplete.
func (c *counter) complete(err error) error {
	if err == nil && *c != outputSize {
		err = fmt.Errorf("got %d bytes: %w", *c, io.ErrUnexpectedEOF)
	}
	return err
}
