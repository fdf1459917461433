package e2e

// Programs of this machine that speak SSH use a sandbox as a host.

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// sshHost is the sandbox "a" as a host of ssh.
type sshHost struct {
	program string // the orchestrator
	config  string // the path of ssh's configuration
	env     []string
}

// overEachSSHHost runs a test with a sandbox of this machine and with a pod. Both have vim, tmux,
// curl and Python.
func overEachSSHHost(t *testing.T, test func(*testing.T, *sshHost)) {
	t.Parallel()
	t.Run("local", func(t *testing.T) {
		t.Parallel()
		test(t, localSSHHost(t))
	})
	t.Run("kubernetes", func(t *testing.T) {
		t.Parallel()
		test(t, podSSHHost(t, launchertest.ProgramsImage))
	})
}

// localSSHHost returns a sandbox that nothing isolates, since tmux is not for all levels.
func localSSHHost(t *testing.T) *sshHost {
	t.Helper()
	return newSSHHost(t, "PODAGENT_BACKEND=local", "PODAGENT_BIN="+harness.ProgramFile(t, "cmd/podagent"), "PODAGENT_ISOLATION=none")
}

func podSSHHost(t *testing.T, image string) *sshHost {
	t.Helper()
	c := launchertest.NewCluster(t, launcher.Restricted)
	return newSSHHost(t, "PODAGENT_BACKEND=kubernetes", "KUBECONFIG="+c.WriteKubeconfig(t), "PODAGENT_IMAGE="+image)
}

func newSSHHost(t *testing.T, env ...string) *sshHost {
	t.Helper()
	dir := t.TempDir()
	h := &sshHost{program: harness.ProgramFile(t, "cmd/orchestrator"), config: filepath.Join(dir, "ssh_config")}
	h.env = append(os.Environ(), "TERM=xterm-256color", "XDG_STATE_HOME="+filepath.Join(dir, "state"), "XDG_CONFIG_HOME="+filepath.Join(dir, "config"))
	h.env = append(h.env, env...)
	up := []string{"up", "a"}
	if strings.Contains(strings.Join(env, " "), "=kubernetes") {
		up = append(up, "--requests", "cpu=20m,memory=32Mi")
	}
	h.run(t, h.program, up...)
	t.Cleanup(func() {
		if out, err := h.command(context.Background(), h.program, "down", "a").CombinedOutput(); err != nil {
			t.Errorf("down: %v: %s", err, out)
		}
	})
	if err := os.WriteFile(h.config, []byte(h.run(t, h.program, "ssh-config")), 0o600); err != nil {
		t.Fatal(err)
	}
	return h
}

// command returns a command that has the sandbox's place in its environment.
func (h *sshHost) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, name, args...)
	c.Env = h.env
	return c
}

// ssh returns a command of ssh, whose arguments follow the configuration.
func (h *sshHost) ssh(ctx context.Context, args ...string) *exec.Cmd {
	return h.command(ctx, "ssh", append([]string{"-F", h.config}, args...)...)
}

// run runs a command that has to succeed, and returns its output.
func (h *sshHost) run(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), harness.Hung)
	defer cancel()
	return outputOf(t, h.command(ctx, name, args...))
}

func outputOf(t *testing.T, c *exec.Cmd) string {
	t.Helper()
	var stderr strings.Builder
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v: %v: %s", c, err, &stderr)
	}
	return string(out)
}

// knownHosts returns the path of the file with the pinned keys.
func (h *sshHost) knownHosts(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(h.config)
	m := regexp.MustCompile(`UserKnownHostsFile "(.*)"`).FindSubmatch(text)
	if err != nil || m == nil {
		t.Fatalf("no known hosts in %q, %v", text, err)
	}
	return string(m[1])
}

// serve starts an HTTP server in the sandbox's loopback, whose file /greeting says hello, and returns
// its port. It runs until the test ends.
func (h *sshHost) serve(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	c := h.ssh(ctx, "a.podagent", "mkdir www; cd www; echo hello >greeting; exec python3 -u -m http.server --bind 127.0.0.1 0 2>/dev/null")
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = c.Wait() // it was killed
	})
	said := make([]byte, 200)
	n, err := out.Read(said)
	m := regexp.MustCompile(`port ([0-9]+)`).FindSubmatch(said[:n])
	if m == nil {
		t.Fatalf("no port in %q, %v", said[:n], err)
	}
	return string(m[1])
}

// freePort returns a port of this machine that nobody listens on.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}
