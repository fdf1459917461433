package egress_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// A program that has used the secret, and goes on, has the placeholder in its memory, and
// the secret neither there nor in what it has open. Nor has the agent, which carried it all.
func TestSecretIsInNoMemoryOfTheSandbox(t *testing.T) {
	sandbox := launchertest.Sandbox(t)
	v := newVault(t, greeting)
	v.let(t, sandbox, nil)
	cmd := sandbox.Command(t.Context(), "python3", "-c", `
import os, sys, urllib.request
token = os.environ["TOKEN"]
r = urllib.request.Request(os.environ["URL"], headers={"Authorization": "Bearer " + token})
body = urllib.request.urlopen(r).read()
print(os.getpid(), os.getppid(), flush=True)
sys.stdin.read()`)
	cmd.Env = []string{"URL=" + v.url()}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	defer cmd.Wait()
	defer stdin.Close()
	var program, agent int
	if _, err := fmt.Fscan(stdout, &program, &agent); err != nil {
		t.Fatal(err)
	}
	for _, pid := range []int{program, agent} {
		if found := has(t, pid, "podagent-secret-TOKEN-"); !strings.Contains(found, "memory") {
			t.Fatalf("the search does not find the placeholder in process %d: %q", pid, found)
		}
		if found := has(t, pid, secretValue); found != "" {
			t.Errorf("process %d has the secret in %s", pid, found)
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.seen) != 1 || v.seen[0] != "Bearer "+secretValue {
		t.Errorf("the host saw %q", v.seen)
	}
}

// has returns the places in which a process has a text: memory, environment, and files.
func has(t *testing.T, pid int, text string) string {
	t.Helper()
	var found []string
	proc := fmt.Sprintf("/proc/%d/", pid)
	if inMemory(t, proc, text) {
		found = append(found, "its memory")
	}
	if env, err := os.ReadFile(proc + "environ"); err == nil && bytes.Contains(env, []byte(text)) {
		found = append(found, "its environment")
	}
	open, _ := os.ReadDir(proc + "fd")
	for _, fd := range open { // journals, for one, have no names
		name := filepath.Join(proc, "fd", fd.Name())
		if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() {
			continue
		}
		if f, err := os.Open(name); err == nil {
			if inReader(io.LimitReader(f, 64<<20), text) {
				found = append(found, name)
			}
			f.Close()
		}
	}
	return strings.Join(found, ", ")
}

func inMemory(t *testing.T, proc, text string) bool {
	t.Helper()
	maps, err := os.ReadFile(proc + "maps")
	if err != nil {
		t.Fatal(err)
	}
	mem, err := os.Open(proc + "mem")
	if errors.Is(err, fs.ErrPermission) {
		t.Skip(err) // it takes root
	} else if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	for line := range strings.Lines(string(maps)) {
		var from, to int64
		var mode string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &mode); err != nil || !strings.HasPrefix(mode, "rw") {
			continue
		}
		if inReader(io.NewSectionReader(mem, from, to-from), text) {
			return true
		}
	}
	return false
}

// inReader reports whether a text comes, up to the first error.
func inReader(r io.Reader, text string) bool {
	b := bufio.NewReaderSize(r, 1<<20)
	for {
		window, err := b.Peek(1 << 20)
		if bytes.Contains(window, []byte(text)) {
			return true
		}
		if err != nil {
			return false
		}
		_, _ = b.Discard(len(window) - len(text) + 1)
	}
}
