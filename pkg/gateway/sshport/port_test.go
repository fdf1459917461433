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

func TestToolsOfOpenSSHWork(t *testing.T) {
	needs(t, "ssh", "scp", "sftp", "rsync", "git")
	t.Parallel()
	d := newDoor(t)
	dir := t.TempDir()
	data := bytes.Repeat([]byte("0123456789abcdef"), 100_000)
	file := filepath.Join(dir, "data")
	if err := os.WriteFile(file, data, 0o640); err != nil {
		t.Fatal(err)
	}
	options := d.options(d.ann)
	remote := "box@127.0.0.1:"
	do := func(program string, args ...string) {
		t.Helper()
		if out, said, status := d.run("", program, args...); status != 0 {
			t.Errorf("%s %q: %d, %s%s", program, args, status, out, said)
		}
	}
	copied := func(path string) {
		t.Helper()
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s: %d bytes, %v", path, len(got), err)
		}
	}
	do("scp", slices.Concat(options, []string{file, remote + "by-scp"})...)
	copied(filepath.Join(d.box.Workdir, "by-scp"))
	do("scp", slices.Concat(options, []string{remote + "by-scp", filepath.Join(dir, "back")})...)
	copied(filepath.Join(dir, "back"))
	if reads := d.of(t, "ssh.files/Read", 1); len(reads) != 1 || reads[0].Out < int64(len(data)) {
		t.Errorf("one file that was read is %d acts: %+v", len(reads), reads)
	}
	if write := d.of(t, "ssh.files/Write", 1)[0]; write.In < int64(len(data)) || len(write.Paths) != 1 || !strings.HasSuffix(write.Paths[0], "/by-scp") {
		t.Errorf("a write: %+v", write)
	}

	shell := "ssh " + strings.Join(options, " ")
	do("rsync", "-a", "-e", shell, dir+"/", remote+"tree/")
	copied(filepath.Join(d.box.Workdir, "tree/data"))
	out, said, status := d.run("", "rsync", "-ai", "--delete", "-e", shell, dir+"/", remote+"tree/")
	if out != "" || status != 0 {
		t.Errorf("the second time: %q, %s, %d", out, said, status)
	}

	if out, said, status := d.run("rename by-scp renamed\nrm renamed\n", "sftp", append(options, "-b", "-", "box@127.0.0.1")...); status != 0 {
		t.Errorf("sftp: %s%s", out, said)
	}
	if act := d.of(t, "ssh.files/Remove", 1)[0]; !strings.HasSuffix(act.Paths[0], "/renamed") {
		t.Errorf("a removal: %+v", act)
	}

	if _, said, status := d.ssh(d.ann, "box", "git init -q --bare repo.git"); status != 0 {
		t.Fatal(said)
	}
	by := "core.sshCommand=" + shell
	clone := filepath.Join(dir, "clone")
	do("git", "-c", by, "clone", "-q", remote+"repo.git", clone)
	do("git", "-C", clone, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "first")
	do("git", "-C", clone, "-c", by, "push", "-q", "origin", "HEAD:main")
	if out, _, _ := d.ssh(d.ann, "box", "git -C repo.git log --format=%s main"); out != "first\n" {
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
	results := make(chan string, 20)
	for i := range cap(results) {
		go func() {
			out, said, _ := d.run("", "ssh", append(slices.Clone(master), "box@127.0.0.1", fmt.Sprintf("echo %d", i))...)
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
	out, said, _ := d.run("", "ssh", append(slices.Clone(master), "-W", fmt.Sprintf("localhost:%d", port), "box@127.0.0.1")...)
	if out != "a server\n" {
		t.Errorf("the port: %q, %s", out, said)
	}
	if act := d.of(t, "ssh.ports/Dial", 1)[0]; act.Port != port || act.Tenant != "acme" || act.Sandbox != "box" {
		t.Errorf("the act: %+v", act)
	}
}
