package sshport_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// needs fails a test unless a program is there.
func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCommandBySSHIsRunAndAudited(t *testing.T) {
	needs(t, "ssh")
	t.Parallel()
	d := newDoor(t)
	out, said, status := d.ssh(d.ann, "box", "echo here; echo there >&2; exit 7")
	if out != "here\n" || said != "there\n" || status != 7 {
		t.Errorf("%q, %q, %d", out, said, status)
	}
	act := d.of(t, "ssh.processes/Exec", 1)[0]
	if act.Tenant != "acme" || act.Key != "ann" || act.Sandbox != "box" || !act.ByToken || act.Status != 200 || act.Class != "" {
		t.Errorf("the act: %+v", act)
	}
	if act.Exit == nil || *act.Exit != 7 || len(act.Args) != 1 || act.Args[0] != "echo here; echo there >&2; exit 7" || act.Out == 0 {
		t.Errorf("the act: %+v", act)
	}
	_, _, _ = d.ssh(d.ann, "box", "curl -H 'Authorization: Bearer abcdefghij'; true")
	if act := d.of(t, "ssh.processes/Exec", 2)[1]; strings.Contains(act.Args[0], "abcdefghij") {
		t.Errorf("a secret is in the act: %q", act.Args)
	}
}

// tools are programs that use a door's port, and a file that they move.
type tools struct {
	*door
	dir, file string
	data      []byte
	options   []string
}

func newTools(t *testing.T, programs ...string) *tools {
	t.Helper()
	needs(t, programs...)
	w := &tools{door: newDoor(t), dir: t.TempDir(), data: bytes.Repeat([]byte("0123456789abcdef"), 100_000)}
	w.options, w.file = w.door.options(w.ann), filepath.Join(w.dir, "data")
	if err := os.WriteFile(w.file, w.data, 0o640); err != nil {
		t.Fatal(err)
	}
	return w
}

// do runs a program that must succeed.
func (w *tools) do(program string, args ...string) {
	w.Helper()
	if out, said, status := w.run("", program, args...); status != 0 {
		w.Errorf("%s %q: %d, %s%s", program, args, status, out, said)
	}
}

// copied checks that a file has what the first one has.
func (w *tools) copied(path string) {
	w.Helper()
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, w.data) {
		w.Errorf("%s: %d bytes, %v", path, len(got), err)
	}
}

// shell returns the command by which programs start ssh.
func (w *tools) shell() string { return "ssh " + strings.Join(w.options, " ") }

const remote = "box@127.0.0.1:"

func TestFilesGoByScpAndSftpAndAreAudited(t *testing.T) {
	t.Parallel()
	w := newTools(t, "scp", "sftp")
	w.do("scp", slices.Concat(w.options, []string{w.file, remote + "by-scp"})...)
	w.copied(filepath.Join(w.box.Workdir, "by-scp"))
	w.do("scp", slices.Concat(w.options, []string{remote + "by-scp", filepath.Join(w.dir, "back")})...)
	w.copied(filepath.Join(w.dir, "back"))
	if reads := w.of(t, "ssh.files/Read", 1); len(reads) != 1 || reads[0].Out < int64(len(w.data)) {
		t.Errorf("one file that was read is %d acts: %+v", len(reads), reads)
	}
	if write := w.of(t, "ssh.files/Write", 1)[0]; write.In < int64(len(w.data)) || len(write.Paths) != 1 || !strings.HasSuffix(write.Paths[0], "/by-scp") {
		t.Errorf("a write: %+v", write)
	}
	if out, said, status := w.run("rename by-scp renamed\nrm renamed\n", "sftp", append(w.options, "-b", "-", "box@127.0.0.1")...); status != 0 {
		t.Errorf("sftp: %s%s", out, said)
	}
	if act := w.of(t, "ssh.files/Remove", 1)[0]; !strings.HasSuffix(act.Paths[0], "/renamed") {
		t.Errorf("a removal: %+v", act)
	}
}

func TestFilesGoByTheOldProtocolOfScp(t *testing.T) {
	t.Parallel()
	w := newTools(t, "scp")
	w.do("scp", slices.Concat([]string{"-O", "-p"}, w.options, []string{w.file, remote + "by-scp"})...)
	w.copied(filepath.Join(w.box.Workdir, "by-scp"))
	w.do("scp", slices.Concat([]string{"-O"}, w.options, []string{remote + "by-scp", filepath.Join(w.dir, "back")})...)
	w.copied(filepath.Join(w.dir, "back"))
}

func TestThisRepositoryGoesByRsyncBothWaysAndASecondTimeWithoutAChange(t *testing.T) {
	t.Parallel()
	w := newTools(t, "ssh", "rsync", "git")
	tree, back := filepath.Join(w.dir, "tree"), filepath.Join(w.dir, "back")
	w.do("sh", "-c", `cd "$(git rev-parse --show-toplevel)" && git ls-files -z | rsync -a --from0 --ignore-missing-args --files-from=- ./ "$0" && ln -s README.md "$0/link" && echo x >"$0/gone" && mkdir "$1" && echo x >"$1/extra"`, tree, back)
	sync := func(want, from, to string) {
		t.Helper()
		out, said, status := w.run("", "rsync", "-ai", "--delete", "-e", w.shell(), from+"/", to+"/")
		if status != 0 || want != "any" && out != want {
			t.Errorf("rsync from %s to %s: %d, %s, changed %.1000q, want %q", from, to, status, said, out, want)
		}
	}
	there := remote + "tree"
	sync("any", tree, there)
	sync("", tree, there)
	if err := os.Remove(filepath.Join(tree, "gone")); err != nil {
		t.Fatal(err)
	}
	sync("*deleting   gone\n.d..t...... ./\n", tree, there)
	sync("any", there, back)
	sync("", there, back)
	if out, said, status := w.run("", "rsync", "-ainc", "--delete", tree+"/", back+"/"); out != "" || status != 0 {
		t.Errorf("it came back otherwise: %.1000q, %s, %d", out, said, status)
	}
}

func TestRepositoryIsClonedAndPushedTo(t *testing.T) {
	t.Parallel()
	w := newTools(t, "ssh", "git")
	if _, said, status := w.ssh(w.ann, "box", "git init -q --bare repo.git"); status != 0 {
		t.Fatal(said)
	}
	by := "core.sshCommand=" + w.shell()
	clone := filepath.Join(w.dir, "clone")
	w.do("git", "-c", by, "clone", "-q", remote+"repo.git", clone)
	w.do("git", "-C", clone, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "first")
	w.do("git", "-C", clone, "-c", by, "push", "-q", "origin", "HEAD:main")
	if out, _, _ := w.ssh(w.ann, "box", "git -C repo.git log --format=%s main"); out != "first\n" {
		t.Errorf("pushed: %q", out)
	}
}

func TestMasterSharesOneConnectionAndItsPorts(t *testing.T) {
	needs(t, "ssh")
	t.Parallel()
	d := newDoor(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0") // local sandboxes share the network
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("a server\n"))
			conn.Close()
		}
	}()
	socket := filepath.Join(t.TempDir(), "m")
	master := append(d.options(d.ann), "-o", "ControlPath="+socket)
	if _, said, status := d.run("", "ssh", append(master, "-M", "-N", "-f", "box@127.0.0.1")...); status != 0 {
		t.Fatal(said)
	}
	defer d.run("", "ssh", append(master, "-O", "exit", "box@127.0.0.1")...)
	shared := append(slices.Clone(master), "-o", "ProxyCommand=false") // they cannot make a connection of their own
	results := make(chan string, 20)
	for i := range cap(results) {
		go func() {
			out, said, _ := d.run("", "ssh", append(slices.Clone(shared), "box@127.0.0.1", fmt.Sprintf("echo %d", i))...)
			if out != fmt.Sprintf("%d\n", i) {
				results <- out + said
				return
			}
			results <- ""
		}()
	}
	for range cap(results) {
		if wrong := <-results; wrong != "" {
			t.Errorf("a session of many: %s", wrong)
		}
	}
	port := listener.Addr().(*net.TCPAddr).Port
	out, said, _ := d.run("", "ssh", append(slices.Clone(shared), "-W", fmt.Sprintf("localhost:%d", port), "box@127.0.0.1")...)
	if out != "a server\n" {
		t.Errorf("the port: %q, %s", out, said)
	}
	if act := d.of(t, "ssh.ports/Dial", 1)[0]; act.Port != port || act.Tenant != "acme" || act.Sandbox != "box" {
		t.Errorf("the act: %+v", act)
	}
}
