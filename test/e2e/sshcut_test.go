package e2e

// The connection between the server of SSH and the agent is cut, which OpenSSH's programs do not see.

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os/exec"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// cutHost is a sandbox as a host of ssh, whose agent is behind a wire.
type cutHost struct {
	*launcher.Sandbox
	*harness.Wire
	address string
	options []string
}

// newCutHost returns a host whose keys are exchanged anew after each MiB, in both directions.
func newCutHost(t *testing.T) *cutHost {
	t.Helper()
	l := launchertest.Local(t)
	harness.Launch(t, l, launcher.Spec{ID: "a"})
	wire := wireToAgent(t, l)
	s, err := l.Open(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	address := serveSSH(t, s)
	_, port, _ := net.SplitHostPort(address)
	return &cutHost{s, wire, address, []string{
		"-F", "none", "-o", "Port=" + port, "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
		"-o", "LogLevel=ERROR", "-o", "RekeyLimit=1M",
	}}
}

// command returns a program of OpenSSH's, with the host's options in front of its arguments.
func (h *cutHost) command(t *testing.T, program string, args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(t.Context(), harness.Hung)
	t.Cleanup(cancel)
	return exec.CommandContext(ctx, program, append(append([]string{}, h.options...), args...)...)
}

// cut ends all connections to the agent, of which there must be one.
func (h *cutHost) cut(t *testing.T) {
	t.Helper()
	harness.Await(t, "a connection to cut", func() bool { return h.Reset() > 0 })
}

func TestACommandBySSHLosesNothingByCutsAndNewKeys(t *testing.T) {
	t.Parallel()
	h := newCutHost(t)
	ssh := h.command(t, "ssh", "127.0.0.1", "while read -r n; do seq $n; echo end $n; done; exit 7")
	in, err := ssh.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := ssh.StdoutPipe()
	if err == nil {
		err = ssh.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	const numbers = 300_000 // 2 MB
	for range 3 {
		fmt.Fprintln(in, numbers)
		for i := 1; i <= numbers && lines.Scan(); i++ {
			if lines.Text() != fmt.Sprint(i) {
				t.Fatalf("%q, want %d", lines.Text(), i)
			}
			if i == numbers/10 {
				h.cut(t)
			}
		}
		if !lines.Scan() || lines.Text() != fmt.Sprint("end ", numbers) {
			t.Fatalf("%q at the end", lines.Text())
		}
	}
	in.Close()
	if _ = ssh.Wait(); ssh.ProcessState.ExitCode() != 7 {
		t.Errorf("ssh ended with %v", ssh.ProcessState)
	}
}

func TestAPortBySSHEndsWithItsConnectionAndOpensAnew(t *testing.T) {
	t.Parallel()
	h := newCutHost(t)
	server := harness.StartServer(t, h.Sandbox)["echo"]
	local := freePort(t)
	forward := h.command(t, "ssh", "-o", "ExitOnForwardFailure=yes", "-L", fmt.Sprintf("127.0.0.1:%s:localhost:%d", local, server),
		"127.0.0.1", "echo listening; exec sleep infinity")
	out, err := forward.StdoutPipe()
	if err == nil {
		err = forward.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = forward.Process.Kill()
		_ = forward.Wait() // it was killed
	}()
	if _, err := out.Read(make([]byte, 10)); err != nil {
		t.Fatalf("ssh does not listen: %v", err)
	}
	echoes := func(conn net.Conn) bool {
		answer := make([]byte, 4)
		_, err := conn.Write([]byte("echo"))
		if err == nil {
			_, err = io.ReadFull(conn, answer)
		}
		return err == nil && string(answer) == "echo"
	}
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", "127.0.0.1:"+local)
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	conn := dial()
	defer conn.Close()
	if !echoes(conn) {
		t.Fatal("the port does not answer")
	}
	h.cut(t)
	if n, err := conn.Read(make([]byte, 1)); err == nil {
		t.Errorf("after the cut %d bytes came", n)
	}
	harness.Await(t, "a connection after the cut", func() bool {
		next := dial()
		defer next.Close()
		return echoes(next)
	})
}
