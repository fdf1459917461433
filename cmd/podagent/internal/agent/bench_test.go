package agent_test

import (
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

const benchOutput = 512 << 20

var benchArgs = []string{"-c", strconv.Itoa(benchOutput), "/dev/zero"}

// BenchmarkOutput moves the output of a process over a unix socket: through an
// agent that is a process of its own, and copied from the pipe as it is.
func BenchmarkOutput(b *testing.B) {
	b.Run("sandbox", func(b *testing.B) {
		s := launchertest.Sandbox(b)
		b.SetBytes(benchOutput)
		for b.Loop() {
			cmd := s.Command(b.Context(), "head", benchArgs...)
			var n counter
			cmd.Stdout = &n
			if err := cmd.Run(); err != nil || n != benchOutput {
				b.Fatalf("got %d bytes, %v", n, err)
			}
		}
	})
	b.Run("copy", func(b *testing.B) {
		l, err := net.Listen("unix", filepath.Join(b.TempDir(), "s"))
		if err != nil {
			b.Fatal(err)
		}
		defer l.Close()
		go serveOutput(l)
		b.SetBytes(benchOutput)
		for b.Loop() {
			conn, err := net.Dial("unix", l.Addr().String())
			if err != nil {
				b.Fatal(err)
			}
			var n counter
			io.CopyBuffer(&n, struct{ io.Reader }{conn}, make([]byte, 64<<10))
			conn.Close()
			if n != benchOutput {
				b.Fatalf("got %d bytes", n)
			}
		}
	})
}

// serveOutput copies the output of a process to each who connects.
func serveOutput(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		cmd := exec.Command("head", benchArgs...)
		if out, err := cmd.StdoutPipe(); err == nil && cmd.Start() == nil {
			io.CopyBuffer(struct{ io.Writer }{conn}, struct{ io.Reader }{out}, make([]byte, 64<<10))
			cmd.Wait()
		}
		conn.Close()
	}
}

type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
