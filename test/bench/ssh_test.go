package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// What SSH may cost: a command beside one by the command line, in milliseconds, and one over a shared
// connection beside that of OpenSSH's own server. A file by sftp is to be half as fast as one by
// "orchestrator cp".
const (
	sshStart  = 40
	sshShared = 1.3
	sshFile   = 0.5
)

// sshRounds are those of commands, each of which is a process.
const sshRounds = 50

// sshHost is the sandbox "bench" for the programs of OpenSSH.
type sshHost struct {
	program string // the orchestrator
	config  string // the path of ssh's configuration
	env     []string
}

// newSSHHost returns the sandbox of this name, which is there, as a host.
func newSSHHost(b *testing.B, program string, env ...string) *sshHost {
	b.Helper()
	h := &sshHost{program: program, config: filepath.Join(b.TempDir(), "config"), env: append(os.Environ(), env...)}
	block, err := h.command(b.Context(), program, "ssh-config").Output()
	if err == nil {
		err = os.WriteFile(h.config, block, 0o600)
	}
	if err != nil {
		b.Fatal(err)
	}
	return h
}

// podSSHHost returns a pod that has this machine's rsync, in the directory rsync of its workdir.
func podSSHHost(b *testing.B) (*pod, *sshHost) {
	b.Helper()
	c := launchertest.NewCluster(b, launcher.Restricted)
	l := c.Launcher()
	l.Identity, l.IdentityFile = nil, filepath.Join(b.TempDir(), "identity.pem")
	s, err := l.Launch(b.Context(), c.Spec("bench"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	program := buildIn(b, filepath.Join("..", ".."), "orchestrator", "./cmd/orchestrator")
	return &pod{s, c}, newSSHHost(b, program, "PODAGENT_BACKEND=kubernetes", "KUBECONFIG="+c.WriteKubeconfig(b), "PODAGENT_IDENTITY="+l.IdentityFile,
		"PODAGENT_IMAGE="+c.Image, "XDG_STATE_HOME="+b.TempDir())
}

func (h *sshHost) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, name, args...)
	c.Env = h.env
	return c
}

// call returns a call of a program that has to succeed.
func (h *sshHost) call(b *testing.B, name string, args ...string) func() error {
	return func() error {
		c := h.command(b.Context(), name, args...)
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w\n%s", c, err, out)
		}
		return nil
	}
}

// ssh returns a call of ssh, scp or rsync, whose arguments follow the configuration.
func (h *sshHost) ssh(b *testing.B, name string, args ...string) func() error {
	return h.call(b, name, append([]string{"-F", h.config}, args...)...)
}

// BenchmarkSSHExec measures ssh with a connection of its own beside exec.
func BenchmarkSSHExec(b *testing.B) {
	_, h := podSSHHost(b)
	r := compare(b, "calls", "ssh true", sshRounds,
		side{name: "podagent", do: h.ssh(b, "ssh", "bench.podagent", "true")},
		side{name: "orchestrator exec", do: h.call(b, h.program, "exec", "bench", "true")})
	r.limit(fmt.Sprintf("orchestrator exec + %d ms", sshStart), r.median("orchestrator exec")+sshStart)
}

// BenchmarkSSHShared measures ssh over a ControlMaster beside one to OpenSSH's sshd.
func BenchmarkSSHShared(b *testing.B) {
	program := buildIn(b, filepath.Join("..", ".."), "orchestrator", "./cmd/orchestrator")
	h := &sshHost{program: program, env: []string{"PODAGENT_BACKEND=local", "PODAGENT_ISOLATION=none", "PODAGENT_BIN=" + podagentProgram(), "XDG_STATE_HOME=" + b.TempDir()}}
	h = newSSHHost(b, program, h.env...)
	if err := h.call(b, program, "up", "bench")(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if out, err := h.command(context.Background(), program, "down", "bench").CombinedOutput(); err != nil {
			b.Errorf("%v: %s", err, out)
		}
	})
	d := startSSHD(b)
	r := compare(b, "calls", "ssh true over a shared connection", sshRounds,
		side{name: "podagent", do: h.shared(b, "bench.podagent")}, side{name: "sshd", do: d.shared(b, "sshd")})
	r.limit(fmt.Sprintf("%v × sshd", sshShared), sshShared*r.median("sshd"))
}

// shared opens a connection, and returns a call that runs a command over it.
func (h *sshHost) shared(b *testing.B, host string) func() error {
	b.Helper()
	socket := filepath.Join(b.TempDir(), "control")
	master := h.command(b.Context(), "ssh", "-F", h.config, "-M", "-N", "-S", socket, host)
	master.Stderr = b.Output()
	if err := master.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = master.Wait() }) // the end of the context kills it
	if err := await(b.Context(), "a shared connection", h.ssh(b, "ssh", "-S", socket, "-O", "check", host)); err != nil {
		b.Fatal(err)
	}
	return h.ssh(b, "ssh", "-S", socket, host, "true")
}

// BenchmarkSSHFile measures files of 256 MiB by scp, which speaks sftp, beside the command line.
func BenchmarkSSHFile(b *testing.B) {
	p, h := podSSHHost(b)
	dir := b.TempDir()
	file, back := filepath.Join(dir, "file"), filepath.Join(dir, "back")
	if err := os.WriteFile(file, random(256<<20), 0o600); err != nil {
		b.Fatal(err)
	}
	remove := func() error { return p.Remove(b.Context(), newFile) }
	compare(b, "streams", "scp of 256 MiB to a pod", streamRounds,
		side{name: "podagent", after: remove, do: h.ssh(b, "scp", "-q", file, "bench.podagent:"+newFile)},
		side{name: "orchestrator cp", after: remove, do: h.call(b, h.program, "cp", file, "bench:"+newFile)},
	).want("orchestrator cp", sshFile)
	if err := h.call(b, h.program, "cp", file, "bench:file")(); err != nil {
		b.Fatal(err)
	}
	removeBack := func() error { return os.Remove(back) }
	compare(b, "streams", "scp of 256 MiB from a pod", streamRounds,
		side{name: "podagent", after: removeBack, do: h.ssh(b, "scp", "-q", "bench.podagent:file", back)},
		side{name: "orchestrator cp", after: removeBack, do: h.call(b, h.program, "cp", "bench:file", back)},
	).want("orchestrator cp", sshFile)
}

// packRsync puts this machine's rsync and its libraries into a directory.
const packRsync = `cp "$(command -v rsync)" rsync
ldd rsync | grep -o '/[^ ]*' | while read -r file; do cp -L "$file" .; done
cp ld-linux* loader`

// BenchmarkSSHTree measures rsync of a new tree of 5,000 files beside kubectl cp.
func BenchmarkSSHTree(b *testing.B) {
	p, h := podSSHHost(b)
	pack := exec.CommandContext(b.Context(), "sh", "-ec", packRsync)
	pack.Dir = b.TempDir()
	if out, err := pack.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	if err := h.ssh(b, "scp", "-q", "-r", pack.Dir, "bench.podagent:rsync")(); err != nil {
		b.Fatal(err)
	}
	rsync := func(from, to string) error {
		return h.call(b, "rsync", "-a", "--rsync-path", "rsync/loader --library-path rsync rsync/rsync", "-e", "ssh -F "+h.config, from+"/", to+"/")()
	}
	local, n, name := makeTree(b), 0, ""
	place := func(in string) string {
		n++
		name = fmt.Sprint("tree-", n)
		return in + name
	}
	pushed := func() error {
		return p.Shell(b.Context(), fmt.Sprintf("test $(find %s -type f -size %dc | wc -l) = %d", name, treeFile, treeFiles)).Run()
	}
	inPod := p.PodName() + ":" + p.Workdir + "/"
	compare(b, "streams", "rsync of 5,000 files to a pod", streamRounds,
		side{name: "podagent", after: pushed, do: func() error { return rsync(local, place("bench.podagent:")) }},
		side{name: "kubectl cp", after: pushed, do: func() error { return p.kubectl(b, "cp", local, place(inPod))() }},
	).want("kubectl cp", 1)
	source, target := name, b.TempDir()+"/"
	pulled := func() error { return checkTree(filepath.Join(target, name)) }
	compare(b, "streams", "rsync of 5,000 files from a pod", streamRounds,
		side{name: "podagent", after: pulled, do: func() error { return rsync("bench.podagent:"+source, place(target)) }},
		side{name: "kubectl cp", after: pulled, do: func() error { return p.kubectl(b, "cp", inPod+source, place(target))() }},
	).want("kubectl cp", 1)
}

// startSSHD starts OpenSSH's server on this machine's loopback, as the host "sshd".
func startSSHD(b *testing.B) *sshHost {
	b.Helper()
	dir := b.TempDir()
	script := exec.CommandContext(b.Context(), "unshare", "-m", "sh", "-e", "testdata/sshd.sh", dir)
	script.Stderr = b.Output()
	out, err := script.StdoutPipe()
	if err == nil {
		err = script.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = script.Wait() }) // the end of the context kills it
	said := make([]byte, 100)
	if n, err := out.Read(said); err != nil || !strings.HasPrefix(string(said[:n]), "ready") {
		b.Fatalf("sshd does not start: %q, %v", said[:n], err)
	}
	return &sshHost{config: filepath.Join(dir, "config"), env: os.Environ()}
}
