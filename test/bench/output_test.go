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

// outputSize is how much a process prints, and printing the command that does.
const outputSize = 512 << 20

var printing = []string{"head", "-c", strconv.Itoa(outputSize), "/dev/zero"}

// streamOutput measures the output of a process over a unix socket, on this machine:
// by an agent, which keeps what it may be asked for again, and copied from the pipe
// as it is. A new agent takes new room for what it keeps, and one that keeps as much
// as it may takes that again.
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

// outputBuffer is what a pipe holds.
const outputBuffer = 64 << 10

// serveOutput copies the output of a process to each who connects to a unix socket,
// whose path it returns.
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
				// If less comes, its reader says so.
				_, _ = io.CopyBuffer(struct{ io.Writer }{conn}, struct{ io.Reader }{out}, make([]byte, outputBuffer))
				_ = cmd.Wait()
			}
			conn.Close()
		}
	}()
	return socket
}

// counter counts what is written.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// complete returns err, or one if not all of the output came.
func (c *counter) complete(err error) error {
	if err == nil && *c != outputSize {
		err = fmt.Errorf("%d bytes came: %w", *c, io.ErrUnexpectedEOF)
	}
	return err
}
