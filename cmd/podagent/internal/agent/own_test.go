package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/podapi"
)

// journals returns the paths of this process's open files that hold a text.
func journals(t *testing.T, text string) (paths []string) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		path := "/proc/self/fd/" + e.Name()
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
			continue
		}
		if content, err := os.ReadFile(path); err == nil && bytes.Contains(content, []byte(text)) {
			paths = append(paths, path)
		}
	}
	return paths
}

// The outputs of all commands are in files that the agent holds open. A call on files does
// not show them, nor does it change the agent.
func TestFileCallsDoNotReachTheAgentItself(t *testing.T) {
	workdir, socket := serveTest(t, func(c *Config) { c.JournalDirs = []string{t.TempDir()} })
	c := dial(t, podapi.DialOptions{Dial: unixDialer(socket)})
	ctx := t.Context()
	const secret = "tok=supersecretvalue123"
	out, err := c.Shell(ctx, "echo "+secret+"; yes "+secret+" | head -c 300000").Output()
	if err != nil || !bytes.Contains(out, []byte(secret)) {
		t.Fatalf("%d bytes, %v", len(out), err)
	}
	paths := journals(t, secret)
	if len(paths) == 0 {
		t.Fatal("no open file holds the output: it must be longer than what is kept in memory")
	}
	if err := os.Symlink(paths[0], workdir+"/journal"); err != nil {
		t.Fatal(err)
	}
	for _, path := range append(paths, "journal", "/proc/self/environ", fmt.Sprintf("/proc/%d/environ", os.Getpid())) {
		if text, err := c.ReadFile(ctx, path); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("read of %s: %d bytes, %v", path, len(text), err)
		}
		for r, err := range c.Grep(ctx, "tok", fsops.GrepOptions{Paths: []string{path}}) {
			if !errors.Is(err, fs.ErrPermission) {
				t.Errorf("grep of %s: %s, %v", path, r.Text, err)
			}
		}
	}
	for r := range c.Grep(ctx, "tok", fsops.GrepOptions{Paths: []string{"/proc/self/fd"}, Follow: true}) {
		if len(r.Text) > 0 {
			t.Errorf("grep of all descriptors: %s", r.Text)
		}
	}
	for _, path := range []string{"/proc/self/oom_score_adj", "/proc/self/comm"} {
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.WriteFile(ctx, path, before, 0o666); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("write to %s: %v", path, err)
		}
	}
}
