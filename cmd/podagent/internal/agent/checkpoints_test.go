package agent

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/fsops/checkpoint"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/pkg/procfs"
)

// withCheckpoints serves an agent with a store, and returns its workdir, the store and a client.
func withCheckpoints(t *testing.T, change func(*Config)) (workdir, store string, client *podapi.Client) {
	t.Helper()
	store = t.TempDir()
	workdir, socket := serveTest(t, func(c *Config) {
		c.Checkpoints = store
		if change != nil {
			change(c)
		}
	})
	return workdir, store, dial(t, podapi.DialOptions{Dial: unixDialer(socket)})
}

func put(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(text)
}

func TestCheckpointsBringFilesBack(t *testing.T) {
	workdir, _, client := withCheckpoints(t, func(c *Config) { c.Protected = []string{"safe"} })
	put(t, workdir, map[string]string{"a": "1\n", "d/b": "1\n", "binary": "\x00", "safe": "1", "log": "1"})
	first, err := client.Checkpoint(t.Context(), checkpoint.CreateOptions{Name: "first \x1b[1m", Exclude: []string{"log"}})
	if err != nil || first.Files != 4 || len(first.LeftOut)+len(first.Moving) > 0 {
		t.Fatalf("%+v, %v", first, err)
	}
	put(t, workdir, map[string]string{"a": "2\n", "d/b": "2\n", "binary": "\x00\x00", "safe": "2", "log": "2", "new\n": "2\n"})
	got := map[string]checkpoint.Difference{}
	for d, err := range client.Diff(t.Context(), first.ID, "", checkpoint.DiffOptions{Text: true}) {
		if err != nil {
			t.Fatal(err)
		}
		got[d.Path] = d
	}
	want := map[string]checkpoint.Difference{
		"a":      {Path: "a", How: checkpoint.Modified, Diff: []byte("--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\n+2\n")},
		"d/b":    {Path: "d/b", How: checkpoint.Modified, Diff: []byte("--- a/d/b\n+++ b/d/b\n@@ -1 +1 @@\n-1\n+2\n")},
		"binary": {Path: "binary", How: checkpoint.Modified, NoDiff: "it is binary"},
		"safe":   {Path: "safe", How: checkpoint.Modified, Diff: []byte("--- a/safe\n+++ b/safe\n@@ -1 +1 @@\n-1\n\\ No newline at end of file\n+2\n\\ No newline at end of file\n")},
		"new\n":  {Path: "new\n", How: checkpoint.Added, Diff: []byte("--- /dev/null\n+++ \"b/new\\n\"\n@@ -0,0 +1 @@\n+2\n")},
	}
	delete(got, "d") // whose time may be the same
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	one, err := client.Restore(t.Context(), first.ID, checkpoint.RestoreOptions{Paths: []string{filepath.Join(workdir, "d")}})
	if err != nil || len(one.Kept) > 0 || read(t, filepath.Join(workdir, "d/b")) != "1\n" || read(t, filepath.Join(workdir, "a")) != "2\n" {
		t.Errorf("restoring one path: %+v, %v", one, err)
	}
	all, err := client.Restore(t.Context(), first.ID, checkpoint.RestoreOptions{})
	if !errors.Is(err, checkpoint.ErrIncomplete) || len(all.Kept) != 1 || all.Kept[0].Path != "safe" || !strings.Contains(all.Kept[0].Why, "protected") {
		t.Errorf("restoring all: %+v, %v", all, err)
	}
	for name, text := range map[string]string{"a": "1\n", "binary": "\x00", "safe": "2", "log": "2", "new\n": ""} {
		if now := read(t, filepath.Join(workdir, name)); now != text {
			t.Errorf("%q has %q, not %q", name, now, text)
		}
	}
	list, err := client.Checkpoints(t.Context())
	if err != nil || len(list) != 3 || list[0].ID != first.ID || list[0].Name != first.Name || list[1].ID != one.Before.ID || list[2].ID != all.Before.ID {
		t.Errorf("there are %+v, %v", list, err)
	}
	if _, err := client.Restore(t.Context(), one.Before.ID, checkpoint.RestoreOptions{}); err != nil || read(t, filepath.Join(workdir, "new\n")) != "2\n" {
		t.Errorf("undoing it: %v", err)
	}
}

// Paths that were not there when the agent started are protected once a fork or a restore has made them, and so is what
// links among them lead to.
func TestFilesThatCheckpointsBringAreProtected(t *testing.T) {
	workdir, _, from := withCheckpoints(t, nil)
	put(t, workdir, map[string]string{"shared/config": "1", "dir/.git/config": "1", "free": "1"})
	if err := errors.Join(os.Symlink("dir/.git", filepath.Join(workdir, ".git")), os.Symlink("../shared", filepath.Join(workdir, "dir/linked"))); err != nil {
		t.Fatal(err)
	}
	c, err := from.Checkpoint(t.Context(), checkpoint.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, bring := range map[string]func(to *podapi.Client) error{
		"fork": func(to *podapi.Client) error {
			return second(from.CopyCheckpoint(t.Context(), c.ID, to, podapi.CopyOptions{Populate: true}))
		},
		"restore": func(to *podapi.Client) error {
			if _, err := from.CopyCheckpoint(t.Context(), c.ID, to, podapi.CopyOptions{}); err != nil {
				return err
			}
			return second(to.Restore(t.Context(), c.ID, checkpoint.RestoreOptions{}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			workdir, _, to := withCheckpoints(t, func(c *Config) { c.Protected = []string{".git/config", "dir/linked/*"} })
			if err := bring(to); err != nil {
				t.Fatal(err)
			}
			for _, path := range []string{".git/config", "dir/.git/config", "dir/linked/config", "shared/config"} {
				if err := to.WriteFile(t.Context(), path, []byte("2"), 0o644); !errors.Is(err, fsops.ErrProtected) || read(t, filepath.Join(workdir, path)) != "1" {
					t.Errorf("%s has %q, %v", path, read(t, filepath.Join(workdir, path)), err)
				}
			}
			if err := to.RemoveAll(t.Context(), ".git"); !errors.Is(err, fsops.ErrProtected) {
				t.Errorf("removing the link: %v", err)
			}
			if err := to.WriteFile(t.Context(), "free", []byte("2"), 0o644); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestErrorsOfCheckpointsHaveTheirClasses(t *testing.T) {
	workdir, store, client := withCheckpoints(t, nil)
	put(t, workdir, map[string]string{"a": strings.Repeat("x", 10000)})
	c, err := client.Checkpoint(t.Context(), checkpoint.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	restore := func(id checkpoint.ID, paths ...string) error {
		return second(client.Restore(t.Context(), id, checkpoint.RestoreOptions{Paths: paths}))
	}
	diff := func(a, b checkpoint.ID) (err error) {
		for _, err = range client.Diff(t.Context(), a, b, checkpoint.DiffOptions{}) {
		}
		return err
	}
	none := checkpoint.ID(strings.Repeat("0", 64))
	for name, test := range map[string]struct{ got, want error }{
		"no such checkpoint":        {restore(none), fs.ErrNotExist},
		"none to compare":           {diff(none, ""), fs.ErrNotExist},
		"none to compare with":      {diff(c.ID, none), fs.ErrNotExist},
		"none to remove":            {client.RemoveCheckpoint(t.Context(), none), fs.ErrNotExist},
		"no id":                     {restore("../../etc"), syscall.EINVAL},
		"no id to compare":          {diff("", ""), syscall.EINVAL},
		"a path outside":            {restore(c.ID, "../x"), syscall.EINVAL},
		"an absolute path outside":  {restore(c.ID, "/etc/passwd"), syscall.EINVAL},
		"a path that is nowhere":    {restore(c.ID, "typo"), fs.ErrNotExist},
		"an empty path":             {restore(c.ID, ""), syscall.EINVAL},
		"too many paths":            {restore(c.ID, make([]string, 1001)...), syscall.EINVAL},
		"a long name":               {second(client.Checkpoint(t.Context(), checkpoint.CreateOptions{Name: strings.Repeat("x", 201)})), syscall.EFBIG},
		"a glob that is none":       {second(client.Checkpoint(t.Context(), checkpoint.CreateOptions{Exclude: []string{"["}})), syscall.EINVAL},
		"a glob of many characters": {second(client.Checkpoint(t.Context(), checkpoint.CreateOptions{Exclude: []string{strings.Repeat("x", 1<<17)}})), syscall.EINVAL},
	} {
		if !errors.Is(test.got, test.want) {
			t.Errorf("%s: %v, not %v", name, test.got, test.want)
		}
	}
	if err := os.WriteFile(filepath.Join(store, "manifests", string(c.ID)), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := restore(c.ID); !errors.Is(err, fsops.ErrChecksum) {
		t.Errorf("of one that was changed: %v", err)
	}
	_, socket := serveTest(t, nil)
	without := dial(t, podapi.DialOptions{Dial: unixDialer(socket)})
	if _, err := without.Checkpoint(t.Context(), checkpoint.CreateOptions{}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("without a place: %v", err)
	}
}

// Files that commands changed without a tool are in a checkpoint, ignored files, too, unless they are excluded.
func TestCheckpointHasWhatCommandsChangedAndWhatIsIgnored(t *testing.T) {
	workdir, _, client := withCheckpoints(t, nil)
	put(t, workdir, map[string]string{".gitignore": "*.log\nbuild/\nexcluded/\n", "src": "1"})
	run := func(script string) {
		t.Helper()
		if out, err := client.Command(t.Context(), "sh", "-ec", script).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
	}
	run("mkdir -p .git build excluded; echo 1 >.git/HEAD; echo 1 >a.log; echo 1 >build/out; echo 1 >excluded/x; sed -i s/1/by-sed/ src")
	c, err := client.Checkpoint(t.Context(), checkpoint.CreateOptions{Exclude: []string{"excluded/"}})
	if err != nil {
		t.Fatal(err)
	}
	run("rm -r build .git; echo 2 >a.log; echo 2 >excluded/x; mv src moved")
	if _, err := client.Restore(t.Context(), c.ID, checkpoint.RestoreOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"src": "by-sed", "a.log": "1\n", "build/out": "1\n", ".git/HEAD": "1\n", "excluded/x": "2\n", "moved": ""} {
		if now := read(t, filepath.Join(workdir, name)); now != text {
			t.Errorf("%s has %q, not %q", name, now, text)
		}
	}
}

// Once a process has written to memory that is mapped from a file, what it writes there next changes no time of the file. It is
// in the next checkpoint all the same. And the agent tells one start of the machine from another.
func TestCheckpointHasWhatIsWrittenToMappedMemory(t *testing.T) {
	workdir, store, client := withCheckpoints(t, nil)
	path := filepath.Join(workdir, "mapped")
	put(t, workdir, map[string]string{"mapped": "0"})
	mem := mapToWrite(t, path)
	mem[0] = '1'
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	for time.Since(info.ModTime()) < 50*time.Millisecond { // until a checkpoint believes the time
		time.Sleep(time.Millisecond)
	}
	var ids []checkpoint.ID
	for _, text := range "12" {
		mem[0] = byte(text)
		c, err := client.Checkpoint(t.Context(), checkpoint.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, c.ID)
	}
	var changed []string
	for d, err := range client.Diff(t.Context(), ids[0], ids[1], checkpoint.DiffOptions{Text: true}) {
		if err != nil {
			t.Fatal(err)
		}
		changed = append(changed, d.Path+string(d.Diff))
	}
	if len(changed) != 1 || !strings.Contains(changed[0], "-1\n") || !strings.Contains(changed[0], "+2\n") {
		t.Errorf("between the checkpoints %q changed", changed)
	}
	var processes procfs.FS
	if index, boot := read(t, filepath.Join(store, "index")), processes.BootID(); boot == "" || !strings.Contains(index, boot) {
		t.Errorf("the store does not know of the start %q of the machine", boot)
	}
}

// mapToWrite returns the memory that has what a file has.
func mapToWrite(t *testing.T, path string) []byte {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	mem, err := syscall.Mmap(int(file.Fd()), 0, 1, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(mem) })
	return mem
}
