package launcher_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi/isolation"
	"github.com/podagent/podagent/pkg/podapi/wayout"
)

// eachIsolation runs a test at each level.
func eachIsolation(t *testing.T, test func(t *testing.T, l *launcher.Local)) {
	for _, level := range []isolation.Level{isolation.Namespaces, isolation.Landlock} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			l := launchertest.Local(t)
			l.Isolation = isolation.Mode(level)
			test(t, l)
		})
	}
}

// killAgents kills the agents of a launcher: whoever listens at their sockets.
func killAgents(t *testing.T, l *launcher.Local) {
	t.Helper()
	sockets, err := filepath.Glob(filepath.Join(l.StateDir, "*", "agent.sock"))
	if err != nil || len(sockets) == 0 {
		t.Fatalf("%q, %v", sockets, err)
	}
	for _, socket := range sockets {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := conn.(*net.UnixConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		var cred *unix.Ucred
		if err := errors.Join(raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }), err); err != nil {
			t.Fatal(err)
		}
		conn.Close()
		agent, err := unix.PidfdOpen(int(cred.Pid), 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(agent)
		if err := unix.PidfdSendSignal(agent, unix.SIGKILL, nil, 0); err != nil {
			t.Fatal(err)
		}
		for n := 0; n == 0; {
			if n, err = unix.Poll([]unix.PollFd{{Fd: int32(agent), Events: unix.POLLIN}}, int(hung.Milliseconds())); n == 0 && !errors.Is(err, unix.EINTR) {
				t.Fatalf("the agent at %s does not end: %v", socket, err)
			}
		}
	}
}

func output(t *testing.T, s *launcher.Sandbox, script string) string {
	t.Helper()
	out, err := s.Command(t.Context(), "sh", "-c", script).CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v: %s", script, err, out)
	}
	return strings.TrimSpace(string(out))
}

// An isolated sandbox works as another one does.
func TestIsolatedSandboxWorks(t *testing.T) {
	eachIsolation(t, func(t *testing.T, l *launcher.Local) {
		s := launch(t, l, launcher.Spec{ID: "a"})
		if s.Isolation.Level != isolation.Level(l.Isolation) || s.Isolation.Missing != "" {
			t.Errorf("it is isolated by %+v", s.Isolation)
		}
		if err := s.WriteFile(t.Context(), "f", []byte("hello"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := output(t, s, "cat f; echo x >$HOME/.profile; echo y >$TMPDIR/t; mv $TMPDIR/t $HOME; pwd"); got != "hello"+s.Workdir {
			t.Errorf("a command printed %q", got)
		}
		if text, err := os.ReadFile(filepath.Join(s.Workdir, "f")); err != nil || string(text) != "hello" {
			t.Errorf("outside, the file has %q, %v", text, err)
		}
		killAgents(t, l)
		again := launch(t, l, launcher.Spec{ID: "a"})
		if got := output(t, again, "cat $HOME/.profile $HOME/t"); got != "x\ny" || again.Isolation.Level != s.Isolation.Level {
			t.Errorf("with another agent: %q, %+v", got, again.Isolation)
		}
		if err := l.Terminate(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if left, err := os.ReadDir(l.StateDir); err != nil || len(left) > 1 { // a lock may stay
			t.Errorf("%v is left, %v", left, err)
		}
	})
}

// What is the user's is not there, neither for commands nor for calls.
func TestIsolatedSandboxHasNothingOfTheUser(t *testing.T) {
	eachIsolation(t, func(t *testing.T, l *launcher.Local) {
		s := launch(t, l, launcher.Spec{ID: "a"})
		other := launch(t, l, launcher.Spec{ID: "b"})
		if err := other.WriteFile(t.Context(), "f", []byte("theirs"), 0o644); err != nil {
			t.Fatal(err)
		}
		key := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(key, []byte("secret"), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{key, filepath.Join(other.Workdir, "f"), filepath.Join(filepath.Dir(s.Workdir), "sandbox.json")} {
			if data, err := s.ReadFile(t.Context(), path); !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
				t.Errorf("a call reads %s: %q, %v", path, data, err)
			}
			if out, err := s.Command(t.Context(), "cat", path).CombinedOutput(); err == nil {
				t.Errorf("a command reads %s: %s", path, out)
			}
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			// Where these succeed, it is with another file of this name.
			_ = s.WriteFile(t.Context(), path, []byte("x"), 0o644)
			_ = s.Command(t.Context(), "sh", "-c", `echo x >>"$0"; rm -f "$0"`, path).Run()
			if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
				t.Errorf("%s is changed to %q, %v", path, after, err)
			}
		}
	})
}

// The agent has no key to ask for. Who is in a sandbox cannot call it, nor that of another one.
func TestCommandsOfASandboxCannotCallAgents(t *testing.T) {
	for _, mode := range []isolation.Mode{isolation.Off, isolation.Mode(isolation.Landlock), isolation.Mode(isolation.Namespaces)} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			l := launchertest.Local(t)
			targets := []*launcher.Sandbox{launch(t, l, launcher.Spec{ID: "b"})}
			l.Isolation = isolation.Mode(isolation.Namespaces)
			targets = append(targets, launch(t, l, launcher.Spec{ID: "c"}))
			l.Isolation = mode
			in := launch(t, l, launcher.Spec{ID: "a"})
			for _, target := range append(targets, in) {
				socket := filepath.Join(filepath.Dir(target.Workdir), "agent.sock")
				// What an agent says first are its settings of HTTP/2.
				const call = `import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0")
print(len(s.recv(1)))`
				if out, err := exec.Command("python3", "-c", call, socket).CombinedOutput(); string(out) != "1\n" {
					t.Fatalf("from outside it answers with %q, %v", out, err)
				}
				out, err := in.Command(t.Context(), "python3", "-c", call, socket).CombinedOutput()
				if err == nil && string(out) == "1\n" {
					t.Errorf("it answers at %s", socket)
				}
			}
		})
	}
}

// What the launcher's environment has is in that of no agent, and of no command.
func TestIsolatedAgentsHaveNothingOfTheLaunchersEnvironment(t *testing.T) {
	const secret = "secret-of-the-environment"
	t.Setenv("PODAGENT_TEST_TOKEN", secret)
	for _, level := range []isolation.Level{isolation.Namespaces, isolation.Landlock} {
		l := launchertest.Local(t)
		l.Isolation = isolation.Mode(level)
		s := launch(t, l, launcher.Spec{ID: "a"})
		if env := output(t, s, "env"); strings.Contains(env, secret) || !strings.Contains(env, "PATH=") {
			t.Errorf("%s: a command has %q", level, env)
		}
		environs, found := 0, "PODAGENT_SANDBOX="+filepath.Dir(sandboxFile(t, l))
		all, err := filepath.Glob("/proc/[0-9]*/environ")
		for _, path := range all {
			text, _ := os.ReadFile(path) // it may have ended
			if !strings.Contains(string(text), found) {
				continue
			}
			environs++
			if strings.Contains(string(text), secret) {
				t.Errorf("%s: %s has %q", level, path, text)
			}
		}
		if environs == 0 || err != nil {
			t.Errorf("%s: there is no agent, %v", level, err)
		}
	}
}

// The network of a sandbox in namespaces leads nowhere, so that it can be required.
func TestIsolatedSandboxHasANetworkThatLeadsNowhere(t *testing.T) {
	l := launchertest.Local(t)
	l.Isolation = isolation.Mode(isolation.Namespaces)
	egress := wayout.Config{Mode: wayout.Mode(wayout.Network), Require: wayout.Network}
	s := launch(t, l, launcher.Spec{ID: "a", Egress: egress})
	if s.Egress.Level != wayout.Network || connects(t, s, listen(t)) {
		t.Errorf("the way out is %+v", s.Egress)
	}
	for _, try := range []string{
		"socket.create_connection(('192.0.2.1', 80))", "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 53))",
		"socket.socket(socket.AF_INET6).connect(('2001:db8::1', 80))", "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
	} {
		out, err := s.Command(t.Context(), "python3", "-c", "import socket; "+try).CombinedOutput()
		if text := string(out); err == nil || !strings.Contains(text, "unreachable") && !strings.Contains(text, "not permitted") && !strings.Contains(text, "assign requested address") {
			t.Errorf("%s: %v, %s", try, err, text)
		}
	}
	l.Isolation = isolation.Mode(isolation.Landlock)
	if _, err := l.Launch(t.Context(), launcher.Spec{ID: "b", Egress: egress}); err == nil {
		t.Error("within rules of Landlock the network is required, too")
	}
}
