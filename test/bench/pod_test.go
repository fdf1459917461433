package bench

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// hung is how long a test waits for something that must happen.
const hung = 5 * time.Minute

// pod is a sandbox in a pod, and what its peers need to know about it.
type pod struct {
	*launcher.Sandbox
	c *launchertest.Cluster
}

func launch(b *testing.B) *pod {
	b.Helper()
	return launchBy(b, launchertest.NewCluster(b, launcher.Restricted), launcher.ByPortForward)
}

// launchBy launches or opens a sandbox that is reached in this way.
func launchBy(b *testing.B, c *launchertest.Cluster, way launcher.Connection) *pod {
	b.Helper()
	s, err := c.By(b, way).Launcher().Launch(b.Context(), c.Spec("bench"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	return &pod{s, c}
}

// address returns the address of a port of the pod.
func (p *pod) address(b *testing.B, port int) string {
	b.Helper()
	d, err := p.c.Launcher().Describe(b.Context(), p.ID)
	if err != nil {
		b.Fatal(err)
	}
	return net.JoinHostPort(d.IP, strconv.Itoa(port))
}

// run returns a call that runs a command in the sandbox.
func (p *pod) run(b *testing.B, command ...string) func() error {
	return func() error { return p.Command(b.Context(), command[0], command[1:]...).Run() }
}

// write returns a call that writes a file.
func (p *pod) write(b *testing.B, name string, data []byte) func() error {
	return func() error {
		return p.WriteFile(b.Context(), name, data, 0o666)
	}
}

// writeSynced returns a call that writes a file and syncs it to disk, as sandboxd
// does.
func (p *pod) writeSynced(b *testing.B, name string, data []byte) func() error {
	return func() error {
		_, err := p.Write(b.Context(), name, bytes.NewReader(data), fsops.WriteOptions{Sync: true})
		return err
	}
}

// read returns a call that reads a file of this size.
func (p *pod) read(b *testing.B, name string, size int64) func() error {
	return func() error {
		r, err := p.Read(b.Context(), name, io.Discard, fsops.ReadOptions{})
		if err == nil && r.Sum.Size != size {
			err = fmt.Errorf("%d bytes came", r.Sum.Size)
		}
		return err
	}
}

func (p *pod) stat(b *testing.B) func() error {
	return func() error {
		_, err := p.Stat(b.Context(), ".")
		return err
	}
}

// install builds a program and writes it into the workdir.
func (p *pod) install(b *testing.B, name, pkg string) {
	b.Helper()
	p.put(b, name, build(b, name, pkg))
}

// put copies a local program into the sandbox.
func (p *pod) put(b *testing.B, name, program string) {
	b.Helper()
	data, err := os.ReadFile(program)
	if err != nil {
		b.Fatal(err)
	}
	if err := p.WriteFile(b.Context(), name, data, 0o755); err != nil {
		b.Fatal(err)
	}
}

// build builds a program of this module, static and stripped like podagent.
func build(b *testing.B, name, pkg string) string { return buildIn(b, ".", name, pkg) }

// buildIn builds a program of the module in a directory.
func buildIn(b *testing.B, dir, name, pkg string) string {
	b.Helper()
	program := filepath.Join(b.TempDir(), name)
	cmd := exec.Command("go", "build", "-C", dir, "-trimpath", "-ldflags", "-s -w", "-o", program, pkg)
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	return program
}

// podagentProgram returns the path of the podagent of local sandboxes, built as for
// a release.
func podagentProgram() string { return os.Getenv("PODAGENT_BIN") }

// startEcho runs testdata/echo in the sandbox and returns its port.
func (p *pod) startEcho(b *testing.B, args ...string) int {
	b.Helper()
	if _, err := p.Stat(b.Context(), "echo"); err != nil {
		p.install(b, "echo", "./testdata/echo")
	}
	cmd := p.Command(b.Context(), "./echo", args...)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	port, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		b.Fatal(err)
	}
	return port
}

// rawStream is a connection to testdata/echo.
type rawStream struct {
	io.ReadWriter
	buf []byte
}

// Buffer sizes for copying raw bytes: kubectl's, which is io.Copy's, and the one of
// testdata/echo, which makes TCP fast.
const (
	forwardBuffer = 32 << 10
	tcpBuffer     = 256 << 10
)

// echoTLS is the TLS configuration for package echo, whose certificate nobody has
// signed.
var echoTLS = &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13}

// dialRaw connects to an address, optionally with TLS.
func dialRaw(b *testing.B, address string, secure bool) *rawStream {
	b.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		b.Fatal(err)
	}
	if secure {
		conn = tls.Client(conn, echoTLS)
	}
	b.Cleanup(func() { conn.Close() })
	return &rawStream{conn, random(tcpBuffer)}
}

func (s *rawStream) request(kind byte, size int64) error {
	_, err := s.Write(binary.BigEndian.AppendUint64([]byte{kind}, uint64(size)))
	return err
}

// startEchoing makes the program echo everything that follows.
func (s *rawStream) startEchoing(b *testing.B) *rawStream {
	b.Helper()
	if err := s.request('e', 0); err != nil {
		b.Fatal(err)
	}
	return s
}

// echo sends 64 bytes and waits for their return.
func (s *rawStream) echo() error {
	if _, err := s.Write(s.buf[:64]); err != nil {
		return err
	}
	_, err := io.ReadFull(s, s.buf[:64])
	return err
}

// send returns a call that sends this many bytes and waits until the program has
// received them. kind is "w", or "f" for a file.
func (s *rawStream) send(kind byte, size int64) func() error {
	return func() error {
		if err := s.request(kind, size); err != nil {
			return err
		}
		for n := int64(0); n < size; {
			k, err := s.Write(s.buf[:min(int64(len(s.buf)), size-n)])
			if err != nil {
				return err
			}
			n += int64(k)
		}
		_, err := io.ReadFull(s, s.buf[:1])
		return err
	}
}

// remove returns a call that removes the file that send wrote.
func (s *rawStream) remove() error { return s.send('d', 0)() }

// receive returns a call that makes the program send this many bytes.
func (s *rawStream) receive(size int64) func() error {
	return func() error {
		if err := s.request('r', size); err != nil {
			return err
		}
		n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, io.LimitReader(s, size), s.buf)
		if err == nil && n != size {
			err = fmt.Errorf("%d bytes came: %w", n, io.ErrUnexpectedEOF)
		}
		return err
	}
}

// await repeats a call until it succeeds.
func await(ctx context.Context, what string, do func() error) error {
	ctx, cancel := context.WithTimeout(ctx, hung)
	defer cancel()
	for {
		err := do()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, err)
		case <-time.After(time.Millisecond):
		}
	}
}

// random returns bytes that no link can compress.
func random(size int) []byte {
	data := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(data)
	return data
}
