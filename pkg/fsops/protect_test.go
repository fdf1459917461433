//go:build unix

package fsops

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// newProtectedFS returns an FS with a directory of protected files and other files
// beside it.
func newProtectedFS(t testing.TB, patterns ...string) *FS {
	t.Helper()
	f := newTestFS(t)
	for _, dir := range []string{".cognition/sub", "src/deep"} {
		must(t, os.MkdirAll(at(f, dir), 0o755))
	}
	for _, name := range []string{".cognition/agent.md", ".cognition/sub/rules", "src/main.go", "src/deep/.env", "free"} {
		put(t, f, name, "original "+name)
	}
	must(t, f.Protect(patterns))
	return f
}

// treeOf describes everything in a directory: names, modes, times, contents.
func treeOf(t testing.TB, dir string) map[string]string {
	t.Helper()
	tree := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		content, _ := os.ReadFile(path) // a link has the content of its target
		tree[path] = fmt.Sprint(info.Mode(), info.ModTime(), info.Sys().(*syscall.Stat_t).Ino, string(content))
		return nil
	}))
	return tree
}

// wantProtected checks that an operation was refused, and that the error names the
// path and the pattern.
func wantProtected(t testing.TB, doing string, err error, pattern string) {
	t.Helper()
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case !errors.Is(err, ErrProtected) || !errors.Is(err, fs.ErrPermission):
		t.Errorf("%s: %v, want ErrProtected", doing, err)
	case !errors.As(err, &path) && !errors.As(err, &link):
		t.Errorf("%s: %T names no path", doing, err)
	case !strings.Contains(err.Error(), fmt.Sprintf("%q", pattern)):
		t.Errorf("%s: %v: does not name the pattern %q", doing, err, pattern)
	}
}

// archiveOf returns an archive of these entries. The content of a file is its name.
func archiveOf(t testing.TB, entries ...tar.Header) *bytes.Reader {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		h.Mode = 0o700
		if h.Typeflag == 0 {
			h.Typeflag, h.Size = tar.TypeReg, int64(len(h.Name))
		}
		must(t, w.WriteHeader(&h))
		if h.Typeflag == tar.TypeReg {
			_, err := w.Write([]byte(h.Name))
			must(t, err)
		}
	}
	must(t, w.Close())
	return bytes.NewReader(b.Bytes())
}

func extract(t testing.TB, f *FS, dir string, entries ...tar.Header) error {
	t.Helper()
	_, err := f.Extract(t.Context(), dir, archiveOf(t, entries...), ExtractOptions{OutsideLinks: true})
	return err
}

// change is an operation that would create, change or remove a protected file.
type change struct {
	name string
	do   func(f *FS, file string) error
}

// changes returns all operations that change files.
func changes(t testing.TB) []change {
	ctx := t.Context()
	return []change{
		{"write", func(f *FS, file string) error { _, err := write(t, f, file, "x", WriteOptions{}); return err }},
		{"write with parents", func(f *FS, file string) error {
			_, err := write(t, f, file+".d/a/b", "x", WriteOptions{Parents: true})
			return err
		}},
		{"edit", func(f *FS, file string) error {
			_, err := f.Edit(ctx, file, []Edit{{Old: []byte("no such text"), New: []byte("x")}}, EditOptions{})
			return err
		}},
		{"mkdir", func(f *FS, file string) error { return f.Mkdir(file+".d", MkdirOptions{}) }},
		{"mkdir with parents", func(f *FS, file string) error { return f.Mkdir(file+".d/a/b", MkdirOptions{Parents: true}) }},
		{"remove", func(f *FS, file string) error { return f.Remove(ctx, file, RemoveOptions{}) }},
		{"remove recursively", func(f *FS, file string) error {
			return f.Remove(ctx, file, RemoveOptions{Recursive: true, Force: true})
		}},
		{"rename from", func(f *FS, file string) error { return f.Rename(t.Context(), file, "free.moved", RenameOptions{}) }},
		{"rename to", func(f *FS, file string) error { return f.Rename(t.Context(), "free", file, RenameOptions{}) }},
		{"rename to, without replacing", func(f *FS, file string) error {
			return f.Rename(t.Context(), "free", file+".new", RenameOptions{NoReplace: true})
		}},
		{"copy to", func(f *FS, file string) error { return f.Copy(ctx, "free", file, CopyOptions{}) }},
		{"copy a tree to", func(f *FS, file string) error {
			return f.Copy(ctx, "src/deep", file+".d", CopyOptions{Recursive: true})
		}},
		{"chmod", func(f *FS, file string) error { return f.Chmod(file, 0o777) }},
		{"symlink", func(f *FS, file string) error { return f.Symlink("/etc/passwd", file+".link") }},
		{"extract a file", func(f *FS, file string) error {
			return extract(t, f, filepath.Dir(file), tar.Header{Name: filepath.Base(file)})
		}},
		{"extract a directory", func(f *FS, file string) error {
			return extract(t, f, filepath.Dir(file), tar.Header{Name: filepath.Base(file) + ".d/e", Typeflag: tar.TypeDir})
		}},
		{"extract a link", func(f *FS, file string) error {
			return extract(t, f, filepath.Dir(file), tar.Header{Name: filepath.Base(file), Typeflag: tar.TypeSymlink, Linkname: "/"})
		}},
	}
}

func TestProtectedPathsAreRefusedByEveryChange(t *testing.T) {
	for _, pattern := range []string{".cognition", ".cognition/", "./.cognition", ".cognition/**", "**/.cognition", ".cog*", "{.git,.cognition}", "{.cognition,x}/**/*"} {
		for _, c := range changes(t) {
			for _, way := range []string{"", "link/", "up/../"} {
				f := newProtectedFS(t, pattern)
				must(t, os.Symlink(".", at(f, "link")))
				must(t, os.Mkdir(at(f, "up"), 0o755))
				before := treeOf(t, at(f, ".cognition"))
				doing := fmt.Sprintf("%s of %q by %q", c.name, way, pattern)
				wantProtected(t, doing, c.do(f, way+".cognition/agent.md"), pattern)
				if diff := cmp.Diff(before, treeOf(t, at(f, ".cognition"))); diff != "" {
					t.Errorf("%s changed (-before +after):\n%s", doing, diff)
				}
				wantContent(t, f, "free", "original free")
			}
		}
	}
}

func TestUnprotectedPathsCanBeChanged(t *testing.T) {
	for _, c := range changes(t) {
		f := newProtectedFS(t, ".cognition", "src/deep/*.key", "/nowhere/**")
		// The edit may run until it does not find its text.
		if err := c.do(f, "src/main.go"); err != nil && !errors.As(err, new(*EditError)) {
			t.Errorf("%s: %v", c.name, err)
		}
		wantContent(t, f, ".cognition/agent.md", "original .cognition/agent.md")
	}
}

func TestMissingProtectedPathsAreNotCreated(t *testing.T) {
	f := newProtectedFS(t, "new/keep", "**/secret")
	for name, err := range map[string]error{
		"file":    second(write(t, f, "new/keep", "x", WriteOptions{Parents: true})),
		"below":   second(write(t, f, "new/keep/a/b", "x", WriteOptions{Parents: true})),
		"dir":     f.Mkdir("new/keep", MkdirOptions{Parents: true}),
		"extract": extract(t, f, ".", tar.Header{Name: "new/keep/a"}),
		"deep":    extract(t, f, ".", tar.Header{Name: "x/secret/a/b"}),
	} {
		if !errors.Is(err, ErrProtected) {
			t.Errorf("%s: %v", name, err)
		}
	}
	wantNames(t, at(f, "new"))
	wantNames(t, at(f, "x"))
	must(t, f.Mkdir("new", MkdirOptions{Parents: true}))
	// A Mkdir of an existing directory changes nothing.
	must(t, os.Mkdir(at(f, "new/keep"), 0o755))
	must(t, f.Mkdir("new/keep", MkdirOptions{Parents: true}))
}

func second[A any](_ A, err error) error { return err }

func TestDirectoriesAroundProtectedPathsStay(t *testing.T) {
	ctx, all := t.Context(), RemoveOptions{Recursive: true}
	for _, pattern := range []string{"src/deep/.env", "**/.env", "src/*/.env", "src/deep/**"} {
		f := newProtectedFS(t, pattern)
		before := treeOf(t, at(f, "src"))
		wantProtected(t, "remove "+pattern, f.Remove(ctx, "src", all), pattern)
		wantProtected(t, "rename "+pattern, f.Rename(t.Context(), "src", "moved", RenameOptions{}), pattern)
		if diff := cmp.Diff(before, treeOf(t, at(f, "src"))); diff != "" {
			t.Errorf("%s (-before +after):\n%s", pattern, diff)
		}
		// Without the protected files, nothing is refused.
		must(t, os.RemoveAll(at(f, "src/deep")))
		must(t, f.Rename(t.Context(), "src", "moved", RenameOptions{}))
		must(t, f.Remove(ctx, "moved", all))
	}
}

func TestRenamingMakesNothingProtected(t *testing.T) {
	f := newProtectedFS(t, "dst/deep/.env", "**/hooks/pre-commit", "dst/link/x")
	wantProtected(t, "a file in it", f.Rename(t.Context(), "src", "dst", RenameOptions{}), "dst/deep/.env")
	must(t, os.Mkdir(at(f, "made"), 0o755))
	put(t, f, "made/pre-commit", "x")
	wantProtected(t, "its own name", f.Rename(t.Context(), "made", "hooks", RenameOptions{}), "**/hooks/pre-commit")
	must(t, os.Symlink("/", at(f, "made/link")))
	wantProtected(t, "a link in it", f.Rename(t.Context(), "made", "dst", RenameOptions{}), "dst/link/x")
	must(t, os.Remove(at(f, "made/link")))
	must(t, f.Rename(t.Context(), "made", "dst", RenameOptions{}))
}

func TestLinksOnTheWayAreProtected(t *testing.T) {
	f := newProtectedFS(t)
	must(t, os.Rename(at(f, ".cognition"), at(f, "src/real")))
	must(t, os.Symlink("src/real", at(f, ".cognition")))
	must(t, os.Symlink(".", at(f, "here")))
	must(t, f.Protect([]string{"here/.cognition"}))
	const pattern = "here/.cognition"
	for doing, err := range map[string]error{
		"the target of the link":   second(write(t, f, "src/real/agent.md", "x", WriteOptions{})),
		"the directory around it":  f.Remove(t.Context(), "src", RemoveOptions{Recursive: true}),
		"the link":                 f.Remove(t.Context(), ".cognition", RemoveOptions{}),
		"the first link":           f.Remove(t.Context(), "here", RemoveOptions{}),
		"renaming the first link":  f.Rename(t.Context(), "here", "there", RenameOptions{}),
		"replacing the link":       f.Rename(t.Context(), "free", ".cognition", RenameOptions{}),
		"writing through the link": second(write(t, f, ".cognition/agent.md", "x", WriteOptions{})),
	} {
		wantProtected(t, doing, err, pattern)
	}
	// A new link must not redirect protected paths that do not exist yet.
	must(t, f.Protect([]string{"later/conf", "other/*.pem"}))
	wantProtected(t, "a new link", f.Symlink("src", "later"), "later/conf")
	wantProtected(t, "a new link", f.Symlink("src", "other"), "other/*.pem")
	wantProtected(t, "an unpacked link", extract(t, f, ".", tar.Header{Name: "later", Typeflag: tar.TypeSymlink, Linkname: "src"}), "later/conf")
	must(t, os.Symlink("src", at(f, "elsewhere")))
	wantProtected(t, "a link that is renamed", f.Rename(t.Context(), "elsewhere", "later", RenameOptions{}), "later/conf")
	must(t, os.MkdirAll(at(f, "tree"), 0o755))
	must(t, os.Symlink("src", at(f, "tree/later")))
	wantProtected(t, "a link that is copied", f.Copy(t.Context(), "tree", ".", CopyOptions{Recursive: true}), "later/conf")
	must(t, f.Symlink("src", "latest"))
	must(t, f.Mkdir("later", MkdirOptions{}))
}

// Links that appear later, with many other files, are followed when FS is told so.
func TestLinksThatAppearLaterAreProtected(t *testing.T) {
	f := newProtectedFS(t, "early/conf", "later/conf", "loop/conf", "src/main.go")
	must(t, os.Symlink("src", at(f, "later")))
	must(t, os.Symlink("loop", at(f, "loop")))
	mustWrite(t, f, "src/conf", "x", WriteOptions{})
	f.SetWorkdir(at(f, "src"))
	if err := f.FollowProtected(); !errors.Is(err, syscall.ELOOP) || !strings.Contains(err.Error(), "loop/conf") {
		t.Errorf("a link that leads to itself: %v", err)
	}
	f.SetWorkdir(filepath.Dir(f.Workdir()))
	wantAll := func() {
		t.Helper()
		wantProtected(t, "the target of the link", second(write(t, f, "src/conf", "y", WriteOptions{})), "later/conf")
		wantProtected(t, "writing through the link", second(write(t, f, "later/conf", "y", WriteOptions{})), "later/conf")
		wantProtected(t, "the link", f.Remove(t.Context(), "later", RemoveOptions{}), "later/conf")
		wantProtected(t, "what is not there", f.Symlink("src", "early"), "early/conf")
		wantProtected(t, "what was there", second(write(t, f, "src/main.go", "y", WriteOptions{})), "src/main.go")
	}
	wantAll()
	must(t, os.Remove(at(f, "loop")))
	must(t, f.FollowProtected())
	wantAll()
	// Where a link led to when it was followed last is not kept for ever: rules would add up.
	must(t, os.Remove(at(f, "later")))
	must(t, f.FollowProtected())
	mustWrite(t, f, "src/conf", "y", WriteOptions{})
	must(t, f.Protect(nil))
	must(t, f.FollowProtected())
}

func TestArchiveGivesProtectedFilesNoSecondName(t *testing.T) {
	f := newProtectedFS(t, ".cognition")
	err := extract(t, f, ".", tar.Header{Name: "second", Typeflag: tar.TypeLink, Linkname: ".cognition/agent.md"})
	wantProtected(t, "a hard link", err, ".cognition")
	must(t, extract(t, f, ".", tar.Header{Name: "second", Typeflag: tar.TypeLink, Linkname: "free"}))
	wantContent(t, f, "second", "original free")
}

func TestDirectoryOfAnArchiveIsProtectedBehindALink(t *testing.T) {
	f := newProtectedFS(t, ".cognition")
	must(t, os.Symlink(".cognition/sub", at(f, "link")))
	before := treeOf(t, at(f, ".cognition"))
	wantProtected(t, "its mode", extract(t, f, ".", tar.Header{Name: "link", Typeflag: tar.TypeDir}), ".cognition")
	if diff := cmp.Diff(before, treeOf(t, at(f, ".cognition"))); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}

func TestProtectReplacesWhatWasProtected(t *testing.T) {
	f := newProtectedFS(t, ".cognition")
	if diff := cmp.Diff([]string{".cognition"}, f.Protected()); diff != "" {
		t.Error(diff)
	}
	w, err := f.Create("src/main.go", WriteOptions{})
	must(t, err)
	defer w.Close()
	must(t, f.Protect([]string{"src/**"}))
	if _, err := w.Commit(t.Context(), Sum{}); !errors.Is(err, ErrProtected) {
		t.Errorf("a write that had begun before: %v", err)
	}
	mustWrite(t, f, ".cognition/agent.md", "x", WriteOptions{})
	must(t, f.Protect(nil))
	mustWrite(t, f, "src/main.go", "x", WriteOptions{})
	if got := f.Protected(); len(got) > 0 {
		t.Errorf("still protected: %q", got)
	}
}

func TestPatternsOfProtectedPathsStartInTheWorkdirOfTheirTime(t *testing.T) {
	f := newProtectedFS(t, "main.go")
	mustWrite(t, f, "src/main.go", "x", WriteOptions{})
	f.SetWorkdir(at(f, "src"))
	mustWrite(t, f, "main.go", "x", WriteOptions{})
	must(t, f.Protect([]string{"main.go"}))
	wantProtected(t, "write", second(write(t, f, "main.go", "y", WriteOptions{})), "main.go")
}

func TestBadPatternsOfProtectedPaths(t *testing.T) {
	for _, bad := range []string{"", "a[", "a\x00", "{a,", "*/../b", "a*/./b", "a*//b", "{a,}", "{a,*/..}", `*/\.\./b`, strings.Repeat("{a,b}", 9)} {
		f := newProtectedFS(t, "free")
		for _, err := range []error{CheckProtected([]string{"fine", bad}), f.Protect([]string{"fine", bad})} {
			if pattern := (*PatternError)(nil); !errors.As(err, &pattern) || pattern.Pattern != bad {
				t.Errorf("%q: %v", bad, err)
			}
		}
		if _, err := write(t, f, "free", "x", WriteOptions{}); !errors.Is(err, ErrProtected) {
			t.Errorf("a bad pattern disabled the others: %v", err)
		}
	}
	many := strings.Split(strings.Repeat("x ", maxProtectRules+1), " ")[:maxProtectRules+1]
	if err := CheckProtected(many); !errors.Is(err, syscall.E2BIG) {
		t.Errorf("too many: %v", err)
	}
	f := newProtectedFS(t)
	must(t, os.Symlink("loop", at(f, "loop")))
	if err := f.Protect([]string{"loop/x"}); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("a loop: %v", err)
	}
}

func TestPatternsOfProtectedPathsMatchBytes(t *testing.T) {
	f := newProtectedFS(t, "\xff*/\xfe", "a{,.bak}", `\*`)
	for name, protected := range map[string]bool{"\xff1/\xfe": true, "\xff1/\xfd": false, "\xfe1/\xfe": false, "a": true, "a.bak": true, "ab": false, "*": true, "x": false} {
		_, err := write(t, f, name, "x", WriteOptions{Parents: true})
		if errors.Is(err, ErrProtected) != protected {
			t.Errorf("%q: %v, want protected %v", name, err, protected)
		}
	}
}
