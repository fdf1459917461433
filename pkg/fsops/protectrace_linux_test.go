package fsops

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// attackedOperations is how often each operation runs while directories are swapped
// under it. That hits each window of a race several times.
const attackedOperations = 150

// swap exchanges two names atomically, so each name exists at all times.
func swap(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}

// attackedFS returns an FS with the protected directory "secret", a similar
// directory "way", and "trap", a link to secret that can be swapped with way. It
// holds way open, so that its content can be restored wherever it is.
func attackedFS(t testing.TB) (f *FS, way *os.File) {
	t.Helper()
	f = newTestFS(t)
	for _, dir := range []string{"secret/sub", "way/sub", "src/deep"} {
		must(t, os.MkdirAll(at(f, dir), 0o755))
		put(t, f, dir+"/file", "original")
	}
	must(t, os.Symlink("secret", at(f, "trap")))
	must(t, f.Protect([]string{"secret"}))
	way, err := holdDir(at(f, "way"))
	must(t, err)
	t.Cleanup(func() { way.Close() })
	return f, way
}

func TestSwappedLinksLeadNothingIntoProtectedPaths(t *testing.T) {
	for _, c := range changes(t) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f, way := attackedFS(t)
			sub := descriptorPath(way) + "/sub"
			before := treeOf(t, at(f, "secret"))
			var over atomic.Bool
			var attack sync.WaitGroup
			attack.Go(func() {
				for !over.Load() {
					if err := swap(at(f, "way"), at(f, "trap")); err != nil {
						t.Error(err)
						return
					}
				}
			})
			refused := 0
			for range attackedOperations {
				put(t, f, "free", "free")
				must(t, os.RemoveAll(sub))
				must(t, os.MkdirAll(sub, 0o755))
				must(t, os.WriteFile(sub+"/file", []byte("original"), 0o644))
				if errors.Is(c.do(f, "way/sub/file"), ErrProtected) {
					refused++
				}
			}
			over.Store(true)
			attack.Wait()
			if diff := cmp.Diff(before, treeOf(t, at(f, "secret"))); diff != "" {
				t.Errorf("the protected files changed (-before +after):\n%s", diff)
			}
			t.Logf("%d of %d were refused", refused, attackedOperations)
		})
	}
}

// During a removal, directories in the tree become links and the other way round.
func TestSwappedLinksLeadNoRemovalIntoProtectedPaths(t *testing.T) {
	f, _ := attackedFS(t)
	secret := at(f, "secret")
	before := treeOf(t, secret)
	for round := range 100 {
		for i := range 8 {
			must(t, os.MkdirAll(at(f, fmt.Sprintf("tree/%d/deep", i)), 0o755))
			put(t, f, fmt.Sprintf("tree/%d/deep/file", i), "x")
		}
		must(t, os.Symlink("../secret", at(f, "tree/link")))
		var attack sync.WaitGroup
		attack.Go(func() {
			for range 20 {
				// The directory may be gone by now.
				_ = swap(at(f, fmt.Sprintf("tree/%d", rand.N(8))), at(f, "tree/link"))
			}
		})
		_ = f.Remove(t.Context(), "tree", RemoveOptions{Recursive: true})
		attack.Wait()
		must(t, f.Remove(t.Context(), "tree", RemoveOptions{Recursive: true, Force: true}))
		if diff := cmp.Diff(before, treeOf(t, secret)); diff != "" {
			t.Fatalf("round %d changed the protected files (-before +after):\n%s", round, diff)
		}
	}
}

// The same must hold for operations of one FS: a file made in a directory during
// its renaming would be protected afterwards.
func TestOperationsAtOnceMakeNothingProtected(t *testing.T) {
	f := newTestFS(t)
	must(t, f.Protect([]string{"**/hooks/keep"}))
	for round := range 400 {
		must(t, os.Mkdir(at(f, "plain"), 0o755))
		var wait sync.WaitGroup
		made, renamed := error(nil), error(nil)
		makers := []func() error{
			func() error { _, err := write(t, f, "plain/keep", "x", WriteOptions{}); return err },
			func() error { return f.Mkdir("plain/keep", MkdirOptions{}) },
			func() error { return f.Symlink("x", "plain/keep") },
			func() error { return extract(t, f, "plain", tar.Header{Name: "keep"}) },
		}
		wait.Go(func() { made = makers[round%len(makers)]() })
		wait.Go(func() { renamed = f.Rename(t.Context(), "plain", "hooks", RenameOptions{}) })
		wait.Wait()
		_, err := os.Lstat(at(f, "hooks/keep"))
		if err == nil {
			t.Fatalf("round %d made hooks/keep: %v, %v", round, made, renamed)
		}
		must(t, os.RemoveAll(at(f, "plain")))
		must(t, os.RemoveAll(at(f, "hooks")))
	}
}

// The source of a renaming may be replaced meanwhile, by a directory with a file
// that the new name would protect, or by a link that would redirect a protected
// path.
func TestRenameMovesOnlyWhatWasChecked(t *testing.T) {
	f := newTestFS(t)
	must(t, f.Protect([]string{"dst/deep/.env"}))
	for round := range 400 {
		put(t, f, "plain", "free")
		must(t, os.MkdirAll(at(f, "src/deep"), 0o755))
		put(t, f, "src/deep/.env", "planted")
		must(t, os.Symlink("src", at(f, "link")))
		var wait sync.WaitGroup
		wait.Go(func() { _ = f.Rename(t.Context(), "plain", "dst", RenameOptions{}) })
		wait.Go(func() {
			_ = f.Remove(t.Context(), "plain", RemoveOptions{})
			_ = f.Rename(t.Context(), []string{"src", "link"}[round%2], "plain", RenameOptions{})
		})
		wait.Wait()
		if _, err := os.Stat(at(f, "dst/deep/.env")); err == nil {
			t.Fatalf("round %d planted a protected file", round)
		}
		for _, name := range []string{"plain", "src", "link", "dst"} {
			must(t, os.RemoveAll(at(f, name)))
		}
	}
}

// If changes keep a search from ending, it finally blocks the other changes. Its
// context still ends it.
func TestRenameAmongManyChangesEnds(t *testing.T) {
	f := newTestFS(t)
	must(t, f.Protect([]string{"**/.env"}))
	for i := range 300 {
		must(t, os.MkdirAll(at(f, fmt.Sprintf("tree/%d", i)), 0o755))
	}
	var over atomic.Bool
	var others sync.WaitGroup
	others.Go(func() {
		for !over.Load() {
			if _, err := write(t, f, "other", "x", WriteOptions{}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	must(t, f.Rename(t.Context(), "tree", "moved", RenameOptions{}))
	over.Store(true)
	others.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Rename(ctx, "moved", "tree", RenameOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("renaming with a cancelled context: %v", err)
	}
}

func TestProtectedPathsInATreeThatIsDeeperThanPaths(t *testing.T) {
	f := newTestFS(t)
	makeDeep(t, f, "deep", "secret")
	must(t, f.Protect([]string{"**/secret"}))
	if err := f.Remove(t.Context(), "deep", RemoveOptions{Recursive: true}); !errors.Is(err, ErrProtected) {
		t.Errorf("removing: %v", err)
	}
	if err := f.Rename(t.Context(), "deep", "moved", RenameOptions{}); err == nil {
		t.Error("a directory that could not be searched was renamed")
	}
	must(t, f.Protect(nil))
	must(t, f.Remove(t.Context(), "deep", RemoveOptions{Recursive: true}))
}

// makeDeep makes a tree whose innermost path is longer than the system accepts,
// with a file in it.
func makeDeep(t testing.TB, f *FS, name, file string) {
	t.Helper()
	dir, err := holdDir(f.Workdir())
	must(t, err)
	for range 40 {
		must(t, os.Mkdir(descriptorPath(dir)+"/"+name, 0o755))
		next, err := os.Open(descriptorPath(dir) + "/" + name)
		must(t, err)
		must(t, dir.Close())
		dir, name = next, strings.Repeat("d", 200)
	}
	defer dir.Close()
	must(t, os.WriteFile(descriptorPath(dir)+"/"+file, nil, 0o644))
}
