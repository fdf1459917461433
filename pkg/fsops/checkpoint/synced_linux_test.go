package checkpoint_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
)

const tracedVariable = "PODAGENT_CHECKPOINT_TRACED"

// Whatever a restore has written is on the disk before its journal ends, and the end of the journal before anybody goes on:
// otherwise a crash of the machine would leave empty files, or have a later process restore again over newer ones.
func TestRestoreIsOnTheDiskBeforeItsJournalEnds(t *testing.T) {
	if dir := os.Getenv(tracedVariable); dir != "" {
		restoreOnly(t, dir)
		return
	}
	for name, count := range map[string]int{"few": 3, "many": 40} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{}
			for n := range count {
				files[fmt.Sprintf("f%d", n)] = fmt.Sprint("content ", n)
			}
			root, s := newTree(t, files, checkpoint.Options{})
			create(t, s)
			for name := range files {
				files[name] += " of later"
			}
			writeFiles(t, root, files)
			calls := trace(t, filepath.Dir(root))
			last := func(parts ...string) int { return lastWith(calls, parts...) }
			begun, renamed, ended := last("rename", "/journal\""), last("renameat2(", ".podagent-restore-"), last("unlink", "/journal\"")
			synced := 0
			for _, call := range calls {
				if strings.Contains(call, "fsync(") && strings.Contains(call, "/.podagent-restore-") {
					synced++
				}
			}
			if begun < 0 || renamed < begun || ended < renamed {
				t.Fatalf("the journal begins at %d, the last file gets its name at %d, the journal ends at %d: %q", begun, renamed, ended, calls)
			}
			all := last("syncfs(", "/tree>")
			if count > 32 && (all < renamed || all > ended) || count <= 32 && synced < count {
				t.Errorf("%d of %d files are on the disk when the journal ends at %d, and the file system at %d: %q", synced, count, ended, all, calls)
			}
			if last("fsync(", "/store>") < ended || slices.IndexFunc(calls[begun:], func(call string) bool { return strings.Contains(call, "/store>") }) > renamed-begun {
				t.Errorf("the journal is not known to be there when the first file changes, or not known to be gone: %q", calls)
			}
		})
	}
}

// restoreOnly restores the checkpoint of a store.
func restoreOnly(t *testing.T, dir string) {
	t.Helper()
	s, err := checkpoint.Open(filepath.Join(dir, "store"), filepath.Join(dir, "tree"), checkpoint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	list, err := s.List(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	if _, err := s.Restore(t.Context(), list[0].ID, checkpoint.RestoreOptions{}); err != nil {
		t.Fatal(err)
	}
}

// trace returns the calls by which another process restores what is in a directory, in their order.
func trace(t *testing.T, dir string) []string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "trace")
	cmd := exec.Command("strace", "-f", "-y", "-e", "trace=/^(rename|unlink|fsync|syncfs)", "-o", out, os.Args[0], "-test.run=^TestRestoreIsOnTheDiskBeforeItsJournalEnds$")
	cmd.Env = append(os.Environ(), tracedVariable+"="+dir)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("tracing a restore, for which this test needs strace: %v: %s", err, text)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(strings.Split(string(text), "\n"), func(call string) bool { return strings.Contains(call, "resumed>") })
}

// lastWith returns the index of the last call that has all parts, -1 if there is none.
func lastWith(calls []string, parts ...string) int {
	for i, call := range slices.Backward(calls) {
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(call, part) }) {
			return i
		}
	}
	return -1
}
