package e2e

// Programs of this machine that speak SSH use a sandbox as a host.

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi/isolation"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// sshHost is the sandbox "a" as a host of ssh.
type sshHost struct {
	program string // the orchestrator
	config  string // the path of ssh's configuration
	env     []string
	stdio   []string // a command that speaks with its server
	key     string   // the path of the client's key; empty if the server asks for none
}

// overEachSSHHost runs a test with a sandbox of this machine, with a pod, and with a pod by a gateway's port.
// All have vim, tmux, curl and Python.
func overEachSSHHost(t *testing.T, test func(*testing.T, *sshHost)) {
	t.Parallel()
	t.Run("local", func(t *testing.T) {
		t.Parallel()
		test(t, localSSHHost(t, isolation.Namespaces))
	})
	t.Run("kubernetes", func(t *testing.T) {
		t.Parallel()
		test(t, podSSHHost(t, launchertest.ProgramsImage))
	})
	t.Run("gateway", func(t *testing.T) {
		t.Parallel()
		test(t, gatewaySSHHost(t, launchertest.ProgramsImage))
	})
}

// localSSHHost returns a sandbox of this machine.
func localSSHHost(t *testing.T, level isolation.Level) *sshHost {
	t.Helper()
	return newSSHHost(t, "PODAGENT_BACKEND=local", "PODAGENT_BIN="+harness.ProgramFile(t, "cmd/podagent"), "PODAGENT_ISOLATION="+string(cmp.Or(isolation.Mode(level), isolation.Off)))
}

func podSSHHost(t *testing.T, image string) *sshHost {
	t.Helper()
	c := launchertest.NewCluster(t, launcher.Restricted)
	return newSSHHost(t, "PODAGENT_BACKEND=kubernetes", "KUBECONFIG="+c.WriteKubeconfig(t), "PODAGENT_IMAGE="+image)
}

func newSSHHost(t *testing.T, env ...string) *sshHost {
	t.Helper()
	h := launchSSHHost(t, env...)
	h.stdio = []string{h.program, "ssh", "--stdio", "a.podagent"}
	if err := os.WriteFile(h.config, []byte(h.run(t, h.program, "ssh-config")), 0o600); err != nil {
		t.Fatal(err)
	}
	return h
}

// gatewaySSHHost returns a pod to which a gateway lets clients with a key. The orchestrator of the host uses the
// gateway, too.
func gatewaySSHHost(t *testing.T, image string) *sshHost {
	t.Helper()
	c, dir, key := launchertest.NewCluster(t, launcher.Restricted), t.TempDir(), newSSHKey(t)
	path := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	token := path("token", gatewayToken)
	gateway := exec.Command(harness.ProgramFile(t, "cmd/orchestrator"), "gateway", "-o", "json", "--listen", "127.0.0.1:0", "--token-file", token,
		"--ssh-listen", "127.0.0.1:0", "--ssh-authorized-keys", path("key.pub", key.line), "--requests", "cpu=20m,memory=32Mi")
	gateway.Env = append(os.Environ(), "PODAGENT_BACKEND=kubernetes", "KUBECONFIG="+c.WriteKubeconfig(t), "PODAGENT_IMAGE="+image, "PODAGENT_AGENT_IMAGE="+c.Image, "XDG_CONFIG_HOME="+dir)
	var at struct {
		URL     string `json:"url"`
		SSH     string `json:"ssh_url"`
		HostKey string `json:"ssh_host_key"`
	}
	if err := json.Unmarshal([]byte(serve(t, gateway)), &at); err != nil {
		t.Fatal(err)
	}
	h := launchSSHHost(t, "PODAGENT_BACKEND=remote", "PODAGENT_GATEWAY="+at.URL, "PODAGENT_GATEWAY_TOKEN_FILE="+token)
	host, port, err := net.SplitHostPort(strings.TrimPrefix(at.SSH, "ssh://"))
	if err != nil {
		t.Fatal(err)
	}
	h.stdio, h.key = []string{"busybox", "nc", host, port}, path("key", key.private)
	known := path("known_hosts", "a.podagent "+at.HostKey+"\n")
	config := "Host a.podagent\n HostName %s\n Port %s\n User a\n HostKeyAlias a.podagent\n UserKnownHostsFile \"%s\"\n StrictHostKeyChecking yes\n IdentityFile \"%s\"\n IdentitiesOnly yes\n IdentityAgent none\n BatchMode yes\n LogLevel ERROR\n"
	if err := os.WriteFile(h.config, fmt.Appendf(nil, config, host, port, known, h.key), 0o600); err != nil {
		t.Fatal(err)
	}
	return h
}

// launchSSHHost launches the sandbox, in the place that the environment names. The configuration of ssh is not there yet.
func launchSSHHost(t *testing.T, env ...string) *sshHost {
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
