package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// ordinary returns a command of a user that no system knows.
func ordinary(name string, args ...string) *exec.Cmd {
	const user = 12345
	cmd := exec.Command(name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	return cmd
}

func TestNobodyLooksIntoAProcessOfTheInstalledCopy(t *testing.T) {
	dir, err := os.MkdirTemp("", "install-") // which others may enter, unlike t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	program := filepath.Join(dir, "podagent")
	data, err := os.ReadFile(os.Args[0])
	if err == nil {
		err = errors.Join(os.WriteFile(program, data, 0o755), os.Chmod(dir, 0o777))
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, err := ordinary(program, "install", dir+"/bin").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for path, want := range map[string]bool{program: true, dir + "/bin/podagent": false} {
		pid := connected(t, path)
		out, err := ordinary("sh", "-c", fmt.Sprintf(": </proc/%d/mem", pid)).CombinedOutput()
		if err == nil != want || err != nil && !strings.Contains(string(out), "denied") {
			t.Errorf("a process of %s can be looked into: %v, want %v: %s", path, err == nil, want, out)
		}
	}
}

// connected starts "podagent connect", which says something and then waits until the
// test ends, and returns its pid.
func connected(t *testing.T, program string) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			t.Cleanup(func() { conn.Close() })
			_, _ = conn.Write([]byte("hello\n"))
		}
	}()
	cmd := ordinary(program, "connect", "--listen", "tcp:"+listener.Addr().String())
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || line != "hello\n" {
		t.Fatalf("%q, %v", line, err)
	}
	return cmd.Process.Pid
}
