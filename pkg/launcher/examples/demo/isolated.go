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
	"github.com/podagent/podagent/pkg/podapi/isolation"
)

// localBackend returns the backend whose sandboxes are on this machine. Those that are isolated may read
// the user's Go, which is not always among the system's programs, the modules that it has, and what it has
// built, so that they need not build that anew. They cannot write there.
func localBackend(mode isolation.Mode) backend {
	l := &launcher.Local{Isolation: mode}
	b := backend{launcher: l, title: "Start a sandbox on this machine", settings: "PODAGENT_BACKEND=local"}
	if mode == isolation.Off {
		return b
	}
	for _, name := range []string{"GOROOT", "GOMODCACHE", "GOCACHE"} {
		dir := goSetting(name)
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			continue
		}
		l.Readable = append(l.Readable, dir)
		b.upFlags = append(b.upFlags, "--readable "+quote(dir))
		if name == "GOCACHE" {
			b.builtEnv = []string{name + "=" + dir, "GODEBUG=goindex=0"} // it would write an index there
		} else {
			b.goEnv = append(b.goEnv, name+"="+dir)
		}
	}
	for _, name := range []string{"GOFLAGS", "GOEXPERIMENT", "CGO_ENABLED"} { // with others, nothing would have been built
		if value := goSetting(name); value != "" {
			b.builtEnv = append(b.builtEnv, name+"="+value)
		}
	}
	return b
}

// goSetting returns a setting of the go command, empty without one.
func goSetting(name string) string {
	out, _ := exec.Command("go", "env", name).Output()
	return strings.TrimSpace(string(out))
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
	if err := d.inVain(ctx, "Try to read a key of yours", "cat "+quote(key)); err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(server.Addr().String())
	if err != nil {
		return err
	}
	return d.inVain(ctx, "Try to reach a server of yours", fmt.Sprintf("bash -c 'echo hello >/dev/tcp/127.0.0.1/%s'", port))
}

// inVain runs a script in the sandbox, which must fail there. Outside it must not.
func (d *demo) inVain(ctx context.Context, title, script string) error {
	c := d.sandbox.Shell(ctx, script)
	return d.step(title, d.command("exec", execWords(c)...), func() error {
		if err := exec.CommandContext(ctx, "sh", "-c", script).Run(); err != nil {
			return fmt.Errorf("%s: outside of the sandbox it should have worked: %w", c, err)
		}
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
