package fsops

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// archived returns the archive of a tree.
func archived(t testing.TB, f *FS, name string, opts ArchiveOptions) ([]byte, TreeStats) {
	t.Helper()
	var buf bytes.Buffer
	stats, err := f.Archive(t.Context(), name, &buf, opts)
	must(t, err)
	return buf.Bytes(), stats
}

// entriesOf lists the names in an archive.
func entriesOf(t testing.TB, archive []byte) (names []string) {
	t.Helper()
	r := tar.NewReader(bytes.NewReader(archive))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		must(t, err)
		names = append(names, h.Name)
	}
}

// snapshot describes a tree by path: mode, time, and hash or link target. It leaves
// out the times of symbolic links.
func snapshot(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		must(t, err)
		line := fmt.Sprintf("%v %v", info.Mode(), info.ModTime().UnixNano())
		switch {
		case info.Mode().IsRegular():
			content, err := os.ReadFile(path)
			must(t, err)
			line += fmt.Sprintf(" %x", sha256.Sum256(content))
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			must(t, err)
			line = "-> " + target
		}
		rel, _ := filepath.Rel(dir, path)
		all[rel] = line
		return nil
	}))
	return all
}

// tarOf makes an archive by hand.
func tarOf(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, h := range headers {
		content := ""
		if h.Typeflag == tar.TypeReg {
			content = "evil"
		}
		h.Size = int64(len(content))
		h.Mode |= 0o644
		must(t, w.WriteHeader(&h))
		_, err := io.WriteString(w, content)
		must(t, err)
	}
	must(t, w.Close())
	return buf.Bytes()
}

func TestTreeRoundTripOfSources(t *testing.T) {
	f := newTestFS(t)
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	must(t, err)
	source := filepath.Join(strings.TrimSpace(string(goroot)), "src", "archive")
	archive, sent := archived(t, f, source, ArchiveOptions{})
	got, err := f.Extract(t.Context(), "copy", iotest.HalfReader(bytes.NewReader(archive)), ExtractOptions{})
	must(t, err)
	if diff := cmp.Diff(snapshot(t, source), snapshot(t, at(f, "copy"))); diff != "" {
		t.Errorf("source (-) and copy (+) differ:\n%s", diff)
	}
	if got != sent || got.Entries < 20 {
		t.Errorf("archived %+v, extracted %+v", sent, got)
	}
}

func TestTreeRoundTripOfOddities(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, "a/file", "a/link -> ../b/target", "b/target", "b/dangling -> gone", "empty/", "new\nline", "\xff\xfe/\xfd", "a/"+strings.Repeat("long", 60), "a/exe", "b/self -> ..", "é/l -> \xff", " lead", "trail ", `back\slash`, "zero")
	put(t, f, "zero", strings.Repeat("\x00", 4096))
	must(t, os.Chmod(at(f, "a/exe"), 0o751))
	must(t, os.Chmod(at(f, "b/target"), 0o400))
	must(t, os.Chmod(at(f, "b"), 0o555))
	must(t, os.Chmod(at(f, "empty"), 0o700|fs.ModeSticky))
	must(t, os.Chtimes(at(f, "a/file"), time.Time{}, time.Unix(1234567890, 123456789)))
	must(t, os.Chtimes(at(f, "a"), time.Time{}, time.Unix(-5, 7)))
	want := snapshot(t, f.Workdir())
	archive, stats := archived(t, f, ".", ArchiveOptions{})
	g := newTestFS(t)
	_, err := g.Extract(t.Context(), "x/y", bytes.NewReader(archive), ExtractOptions{})
	must(t, err)
	if diff := cmp.Diff(want, snapshot(t, at(g, "x/y"))); diff != "" {
		t.Errorf("source (-) and copy (+) differ:\n%s", diff)
	}
	if stats.Entries != int64(len(want)) {
		t.Errorf("%d entries for %d files", stats.Entries, len(want))
	}
}

type brokenWriter struct {
	room int
	err  error
}

func (w *brokenWriter) Write(p []byte) (int, error) {
	if w.room -= len(p); w.room < 0 {
		return 0, w.err
	}
	return len(p), nil
}

func TestArchiveErrorOfItsWriter(t *testing.T) {
	f := newTestFS(t)
	put(t, f, "file", strings.Repeat("x", 4096))
	whole, _ := archived(t, f, ".", ArchiveOptions{})
	full := &fs.PathError{Op: "write", Path: "out.tar", Err: syscall.ENOSPC}
	for room, path := range map[int]string{0: "./file", len(whole) - 1024: "."} {
		_, err := f.Archive(t.Context(), ".", &brokenWriter{room, full}, ArchiveOptions{})
		wantPathError(t, err, "archive", path, syscall.ENOSPC)
		if !errors.Is(err, full) {
			t.Errorf("error is %v", err)
		}
	}
}

func TestArchiveOfOneFile(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, "dir/file")
	archive, stats := archived(t, f, "dir/file", ArchiveOptions{})
	if got := entriesOf(t, archive); !slices.Equal(got, []string{"file"}) || stats.Entries != 1 || stats.Bytes != 9 {
		t.Errorf("entries %q, stats %+v", got, stats)
	}
	_, err := f.Archive(t.Context(), "missing", io.Discard, ArchiveOptions{})
	wantPathError(t, err, "archive", "missing", fs.ErrNotExist)
}

func TestArchiveLeavesOutExcludedFiles(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, ".git/HEAD", ".git/x.o", "a.o", "a.c", "out/b.c", "sub/c.o", "sub/d.c")
	put(t, f, ".gitignore", "*.o\nout/\n")
	for _, test := range []struct {
		opts ArchiveOptions
		want string
	}{
		{ArchiveOptions{}, ".git/ .git/HEAD .git/x.o .gitignore a.c a.o out/ out/b.c sub/ sub/c.o sub/d.c"},
		{ArchiveOptions{Ignore: true}, ".git/ .git/HEAD .git/x.o .gitignore a.c sub/ sub/d.c"},
		{ArchiveOptions{Exclude: []string{".git", "*.c"}}, ".gitignore a.o out/ sub/ sub/c.o"},
		{ArchiveOptions{Exclude: []string{"sub/**", "*/b.c"}}, ".git/ .git/HEAD .git/x.o .gitignore a.c a.o out/"},
	} {
		archive, _ := archived(t, f, ".", test.opts)
		if got := strings.Join(entriesOf(t, archive), " "); got != test.want {
			t.Errorf("%+v:\n got %s\nwant %s", test.opts, got, test.want)
		}
	}
}

// A hookWriter calls a function at the first write that is larger than a header,
// while a file's content is being written.
type hookWriter struct {
	io.Writer
	hook func()
}

func (w *hookWriter) Write(p []byte) (int, error) {
	if len(p) > 512 && w.hook != nil {
		w.hook()
		w.hook = nil
	}
	return w.Writer.Write(p)
}

func TestArchiveOfChangingFileFails(t *testing.T) {
	for name, size := range map[string]int64{"shrinks": blockSize, "grows": 5 * blockSize} {
		f := newTestFS(t)
		put(t, f, "file", strings.Repeat("x", 4*blockSize))
		var buf bytes.Buffer
		_, err := f.Archive(t.Context(), ".", &hookWriter{&buf, func() { must(t, os.Truncate(at(f, "file"), size)) }}, ArchiveOptions{})
		wantPathError(t, err, "archive", "./file", ErrChanged)
		if _, err := f.Extract(t.Context(), "copy", &buf, ExtractOptions{}); err == nil {
			t.Errorf("a file that %s: the broken archive looks complete", name)
		}
	}
}

func TestTreeTransferEndsWithItsContext(t *testing.T) {
	f := newTestFS(t)
	put(t, f, "file", strings.Repeat("x", 4*blockSize))
	archive, _ := archived(t, f, ".", ArchiveOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	_, err := f.Archive(ctx, ".", &hookWriter{io.Discard, cancel}, ArchiveOptions{})
	wantPathError(t, err, "archive", ".", context.Canceled)
	_, err = f.Extract(ctx, "copy", bytes.NewReader(archive), ExtractOptions{})
	wantPathError(t, err, "extract", "copy", context.Canceled)
	if err := os.RemoveAll(at(f, "copy")); err != nil {
		t.Error(err)
	}
}

// FuzzExtract unpacks arbitrary bytes, and archives of two arbitrary entries.
func FuzzExtract(f *testing.F) {
	fsys := newTestFS(f)
	makeTree(f, fsys, "tree/a", "tree/d/b", "tree/l -> a", "outside/file")
	archive, _ := archived(f, fsys, "tree", ArchiveOptions{})
	f.Add(archive, "../x", "", byte(tar.TypeReg), "x", "../outside/file", byte(tar.TypeLink))
	f.Add(archive[:1500], "l", "../outside", byte(tar.TypeSymlink), "l/file", "", byte(tar.TypeReg))
	f.Add([]byte{}, "h", "old/file", byte(tar.TypeLink), "h", "", byte(tar.TypeReg))
	f.Add([]byte{}, "in/d/", "", byte(tar.TypeDir), "in/old", "", byte(tar.TypeDir))
	before := snapshot(f, at(fsys, "outside"))
	f.Fuzz(func(t *testing.T, raw []byte, name1, target1 string, type1 byte, name2, target2 string, type2 byte) {
		made := twoEntries(tar.Header{Name: name1, Linkname: target1, Typeflag: type1}, tar.Header{Name: name2, Linkname: target2, Typeflag: type2})
		target := at(fsys, "target")
		must(t, os.RemoveAll(target))
		makeTree(t, fsys, "target/old -> ../outside", "target/in -> .")
		for _, opts := range []ExtractOptions{{}, {OutsideLinks: true}} {
			for _, archive := range [][]byte{raw, made} {
				_, _ = fsys.Extract(context.Background(), target, bytes.NewReader(archive), opts)
			}
		}
		if diff := cmp.Diff(before, snapshot(t, at(fsys, "outside"))); diff != "" {
			t.Errorf("something outside changed:\n%s", diff)
		}
		wantNames(t, fsys.Workdir(), "outside", "target", "tree")
	})
}

// twoEntries makes an archive of the headers that can be put into one.
func twoEntries(headers ...tar.Header) []byte {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, h := range headers {
		if h.Typeflag == tar.TypeReg {
			h.Size = 4
		}
		if h.Mode = 0o700; w.WriteHeader(&h) == nil && h.Size > 0 {
			_, _ = io.WriteString(w, "evil")
		}
	}
	_ = w.Close()
	return buf.Bytes()
}
