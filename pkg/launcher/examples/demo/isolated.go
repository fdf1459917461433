package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/pkg/podapi/isolation"
)

// localBackend returns the backend whose sandboxes are on this machine. Those that are isolated may read
// the user's Go, which is not always among the system's programs, and the modules that it has. They build all
// anew: the go command must be able to write where it keeps what it has built.
func localBackend(mode isolation.Mode) backend {
	l := &launcher.Local{Isolation: mode}
	b := backend{launcher: l, title: "Start a sandbox on this machine", settings: "PODAGENT_BACKEND=local"}
	if mode == isolation.Off {
		return b
	}
	for _, name := range []string{"GOROOT", "GOMODCACHE"} {
		out, err := exec.Command("go", "env", name).Output()
		dir := strings.TrimSpace(string(out))
		if info, statErr := os.Stat(dir); err == nil && statErr == nil && info.IsDir() {
			l.Readable = append(l.Readable, dir)
			b.goEnv = append(b.goEnv, name+"="+dir)
		}
	}
	return b
}

// escape shows that a command cannot read what is outside of the sandbox, nor reach another program of
// this machine. It does nothing where nothing isolates the sandbox, and in a pod, which is on another one.
func (d *demo) escape(ctx context.Context) error {
	if d.sandbox.Isolation.Level == isolation.None {
		return nil
	}
	dir, err := os.MkdirTemp("", "podagent-demo-keys-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	key := filepath.Join(dir, "id_ed25519")
	if err := os.WriteFile(key, []byte("a key of yours\n"), 0o600); err != nil {
		return err
	}
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer server.Close()
	if err := d.inVain(ctx, "Try to read a key of yours", d.sandbox.Command(ctx, "cat", key)); err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(server.Addr().String())
	if err != nil {
		return err
	}
	reach := d.sandbox.Shell(ctx, fmt.Sprintf("bash -c 'echo hello >/dev/tcp/127.0.0.1/%s'", port))
	return d.inVain(ctx, "Try to reach a server of yours", reach)
}

// inVain runs a command, which must fail. That there is none does not count.
func (d *demo) inVain(ctx context.Context, title string, c *podapi.Cmd) error {
	return d.step(title, d.command("exec", execWords(c)...), func() error {
		if err := d.output(ctx, c); err != nil {
			return err
		}
		if s := c.Process.Status(); s.Success() || s.Code > 125 {
			return fmt.Errorf("%s: it should have been refused, but ended with %v", c, s)
		}
		d.result(fmt.Sprintf("[refused: the sandbox is isolated by %s]", d.sandbox.Isolation.Level))
		return nil
	})
}
