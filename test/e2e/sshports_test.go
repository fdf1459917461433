package e2e

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi/isolation"
	"github.com/podagent/podagent/pkg/sshserver"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// TestCurlReachesAServerOfTheSandboxByForwardedPorts uses ssh -L and -D.
func TestCurlReachesAServerOfTheSandboxByForwardedPorts(t *testing.T) {
	overEachSSHHost(t, func(t *testing.T, h *sshHost) {
		server, local, socks := h.serve(t), freePort(t), freePort(t)
		ctx, cancel := context.WithCancel(context.Background())
		forwarding := h.ssh(ctx, "-o", "ExitOnForwardFailure=yes", "-L", "127.0.0.1:"+local+":localhost:"+server, "-D", "127.0.0.1:"+socks,
			"a.podagent", "echo listening; exec sleep infinity")
		out, err := forwarding.StdoutPipe()
		if err == nil {
			err = forwarding.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			cancel()
			_ = forwarding.Wait() // it was killed
		}()
		if _, err := out.Read(make([]byte, 10)); err != nil {
			t.Fatalf("ssh does not listen: %v", err)
		}
		curl := func(args ...string) string {
			return h.run(t, "curl", append([]string{"-sS", "--fail", "--noproxy", ""}, args...)...)
		}
		if got := curl("http://127.0.0.1:" + local + "/greeting"); got != "hello\n" {
			t.Errorf("by -L: %q", got)
		}
		proxy := "socks5h://127.0.0.1:" + socks
		if got := curl("-x", proxy, "http://localhost:"+server+"/greeting"); got != "hello\n" {
			t.Errorf("by -D: %q", got)
		}
		if out, err := h.command(t.Context(), "curl", "-sS", "-x", proxy, "http://example.com/").CombinedOutput(); err == nil {
			t.Errorf("another host was reached by -D: %s", out)
		}
	})
}

// TestAJumpBySSHReachesAServerOfSSHInTheSandbox uses ssh -J.
func TestAJumpBySSHReachesAServerOfSSHInTheSandbox(t *testing.T) {
	t.Parallel()
	h := localSSHHost(t, isolation.None) // its ports are this machine's
	_, port, _ := net.SplitHostPort(serveSSH(t, harness.Launch(t, launchertest.Local(t), launcher.Spec{ID: "behind"})))
	ctx, cancel := context.WithTimeout(t.Context(), harness.Hung)
	defer cancel()
	jump := h.ssh(ctx, "-J", "a.podagent", "-p", port, "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "localhost", "basename $(dirname $PWD) | cut -d - -f 1")
	if got := outputOf(t, jump); got != "behind\n" {
		t.Errorf("ssh came to %q", got)
	}
}

// serveSSH serves a sandbox to whoever connects to a port of this machine, and returns its address.
func serveSSH(t *testing.T, s *launcher.Sandbox) string {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromSigner(key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_ = (&sshserver.Server{Sandbox: s.Client, Workdir: s.Workdir, HostKey: signer}).Serve(t.Context(), conn)
			}()
		}
	}()
	return l.Addr().String()
}

// TestNodesSSHClientUsesASandbox uses ssh2 of npm.
func TestNodesSSHClientUsesASandbox(t *testing.T) {
	type end struct {
		Out    string
		Code   *int
		Signal string
	}
	var report struct {
		Exec, Killed, Shell end
		Same                bool
		Mode, Proxy         int
		Size                [2]int
		Forwarded           string
	}
	overEachSSHHost(t, func(t *testing.T, h *sshHost) {
		report := report
		args := append([]string{"client.mjs", h.knownHosts(t), h.serve(t), h.key}, h.stdio...)
		dir := installNode(t, "testdata/sshclient")
		ctx, cancel := context.WithTimeout(t.Context(), harness.Hung)
		defer cancel()
		client := h.command(ctx, "node", args...)
		client.Dir = dir
		if err := json.Unmarshal([]byte(outputOf(t, client)), &report); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(end{"input\nfrom the environment\n", new(7), ""}, report.Exec); diff != "" {
			t.Errorf("a command (-want +got):\n%s", diff)
		}
		if report.Killed.Code != nil || report.Killed.Signal != "SIGTERM" {
			t.Errorf("a command that was killed: %+v", report.Killed)
		}
		if !strings.Contains(report.Shell.Out, "30 100\r\n") || report.Shell.Code == nil || *report.Shell.Code != 3 {
			t.Errorf("a shell: %+v", report.Shell)
		}
		if !report.Same || report.Mode != 0o640 || report.Size != [2]int{5 << 20, 5 << 20} {
			t.Errorf("a file: %v, mode %o, sizes %v", report.Same, report.Mode, report.Size)
		}
		if !strings.HasSuffix(report.Forwarded, "\r\n\r\nhello\n") {
			t.Errorf("a server in the sandbox: %q", report.Forwarded)
		}
		if report.Proxy != 0 {
			t.Errorf("the exit status of the ProxyCommand is %d", report.Proxy)
		}
	})
}
