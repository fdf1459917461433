package fsops

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWatchIgnoresWhatGitDoes(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, "dir/.git/objects/", "dir/sub/", "dir/build/deep/", "dir/x.o")
	put(t, f, "dir/.gitignore", "*.o\nbuild/\n")
	put(t, f, "dir/sub/.gitignore", "!keep.o\n")
	w := watchFor(t, f, "dir", WatchOptions{Recursive: true, Ignore: true})
	for _, dir := range []string{"dir/.git/objects", "dir/build", "dir/build/deep"} {
		put(t, f, dir+"/unseen", "")
	}
	put(t, f, "dir/x.o", "unseen")
	put(t, f, "dir/sub/x.o", "unseen")
	put(t, f, "dir/sub/keep.o", "")
	w.want("create dir/sub/keep.o")
	must(t, os.Remove(at(f, "dir/x.o")))
	must(t, os.RemoveAll(at(f, "dir/build")))
	makeTree(t, f, "dir/build/again/")
	put(t, f, "dir/build/again/unseen", "")
	makeTree(t, f, "dir/new/build/unseen", "dir/new/seen")
	w.want("create dir/new", "create dir/new/seen")
	// A renaming from a watched name to an ignored one, and back.
	must(t, os.Rename(at(f, "dir/new/seen"), at(f, "dir/new/seen.o")))
	w.want("remove dir/new/seen")
	must(t, os.Rename(at(f, "dir/new/seen.o"), at(f, "dir/new/again")))
	w.want("create dir/new/again")
}

func TestWatchIgnoresWithoutTheTreeBelow(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, "dir/.git/", "dir/sub/")
	put(t, f, "dir/.gitignore", "*.o\nbuild/\n")
	w := watchFor(t, f, "dir", WatchOptions{Ignore: true})
	put(t, f, "dir/x.o", "")
	put(t, f, "dir/sub/x", "")
	makeTree(t, f, "dir/build/")
	must(t, os.RemoveAll(at(f, "dir/build")))
	must(t, os.RemoveAll(at(f, "dir/sub")))
	w.want("remove dir/sub")
}

// overwrite changes the beginning of a file with one system call, so the file is
// never empty.
func overwrite(t *testing.T, f *FS, name, content string) {
	t.Helper()
	file, err := os.OpenFile(at(f, name), os.O_WRONLY, 0)
	must(t, err)
	_, err = file.WriteString(content)
	must(t, errors.Join(err, file.Close()))
}

func TestWatchTakesChangedRulesIntoAccount(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, "dir/.git/", "dir/logs/", "dir/build/deep/file")
	put(t, f, "dir/.gitignore", "build\n")
	w := watchFor(t, f, "dir", WatchOptions{Recursive: true, Ignore: true})
	overwrite(t, f, "dir/.gitignore", "logs\n\n")
	w.want("write dir/.gitignore", "create dir/build", "create dir/build/deep", "create dir/build/deep/file")
	put(t, f, "dir/logs/unseen", "")
	put(t, f, "dir/build/deep/seen", "")
	w.want("create dir/build/deep/seen")
	must(t, os.Remove(at(f, "dir/.gitignore")))
	w.want("remove dir/.gitignore", "create dir/logs", "create dir/logs/unseen")
	put(t, f, "dir/logs/seen", "")
	w.want("create dir/logs/seen")
}

// A renamed directory is subject to the rules of its new place.
func TestWatchRenamesAcrossRules(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, "dir/.git/", "dir/a/d/x.o", "dir/a/d/y", "dir/b/")
	put(t, f, "dir/a/.gitignore", "*.o\n")
	w := watchFor(t, f, "dir", WatchOptions{Recursive: true, Ignore: true})
	must(t, os.Rename(at(f, "dir/a/d"), at(f, "dir/b/d")))
	w.until("create dir/b/d/x.o")
	if diff := cmp.Diff("rename dir/a/d -> dir/b/d", w.seen[0]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for i := range 3 {
		put(t, f, "dir/b/d/x.o", fmt.Sprint(i))
		w.until("write dir/b/d/x.o")
	}
}
