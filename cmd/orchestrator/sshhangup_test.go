package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A terminal that is closed, and "kill -- -GROUP", signal ssh and its ProxyCommand at once, and a dying ssh
// its ProxyCommand once more.
func TestWhatSSHLeavesGetsAHangupHoweverOftenItsGroupIsSignalled(t *testing.T) {
	w := newDesktop(t, "PODAGENT_BACKEND=local")
	config := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(config, []byte(w.run(t, "ssh-config")), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, sent := range map[string]syscall.Signal{"terminated": syscall.SIGTERM, "closed": syscall.SIGHUP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ssh := exec.Command("ssh", "-F", config, "a.podagent",
				"trap 'echo hup >"+name+"; exit' HUP; echo ready; while :; do sleep 0.05; done")
			ssh.Env, ssh.SysProcAttr = w.env, &syscall.SysProcAttr{Setpgid: true}
			out, err := ssh.StdoutPipe()
			if err == nil {
				ssh.Stderr = ssh.Stdout // the pipe ends with the last program of the group
				err = ssh.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			for lines.Scan() && lines.Text() != "ready" {
			}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for lines.Scan() {
				}
			}()
			signalUntil(t, -ssh.Process.Pid, sent, ended)
			_ = ssh.Wait() // a signal ended it
			for end := time.Now().Add(hung); ; time.Sleep(50 * time.Millisecond) {
				if said := w.run(t, "exec", "a", "--", "sh", "-c", "cat "+name+" 2>/dev/null; true"); strings.TrimSpace(said) == "hup" {
					return
				} else if time.Now().After(end) {
					t.Fatalf("the command got no hangup: %q", said)
				}
			}
		})
	}
}

// signalUntil sends a group of processes a signal again and again, until ended is closed.
func signalUntil(t *testing.T, group int, sent syscall.Signal, ended <-chan struct{}) {
	t.Helper()
	late := time.After(hung)
	for {
		_ = syscall.Kill(group, sent) // it may have ended
		select {
		case <-ended:
			return
		case <-late:
			t.Fatal("ssh and its ProxyCommand do not end")
		default:
		}
	}
}
