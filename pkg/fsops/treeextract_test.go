package fsops

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestExtractReplacesFilesAndMergesDirectories(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, "from/a/new", "from/a/both", "from/file", "from/dir/x", "from/l -> file")
	archive, _ := archived(t, f, "from", ArchiveOptions{})
	makeTree(t, f, "to/a/old", "to/a/both", "to/dir", "to/elsewhere", "to/file -> elsewhere", "to/l -> nowhere")
	put(t, f, "to/a/both", "old")
	for range 2 {
		_, err := f.Extract(t.Context(), "to", bytes.NewReader(archive), ExtractOptions{})
		must(t, err)
		wantContent(t, f, "to/a/both", "from/a/both\n")
		wantContent(t, f, "to/a/old", "to/a/old\n")
		wantContent(t, f, "to/dir/x", "from/dir/x\n")
		wantContent(t, f, "to/elsewhere", "to/elsewhere\n")
		wantContent(t, f, "to/file", "from/file\n")
		wantNames(t, at(f, "to"), "a", "dir", "elsewhere", "file", "l")
		wantNames(t, at(f, "to/a"), "both", "new", "old")
	}
	// Nothing else replaces a directory.
	_, err := f.Extract(t.Context(), "to", bytes.NewReader(tarOf(t, tar.Header{Name: "a", Typeflag: tar.TypeReg})), ExtractOptions{})
	if err == nil {
		t.Error("a file replaced a directory")
	}
	wantNames(t, at(f, "to"), "a", "dir", "elsewhere", "file", "l")
}

func TestExtractDropsSetIDBits(t *testing.T) {
	f := newTestFS(t)
	archive := tarOf(t, tar.Header{Name: "x", Typeflag: tar.TypeReg, Mode: 0o6755}, tar.Header{Name: "d", Typeflag: tar.TypeDir, Mode: 0o7755})
	_, err := f.Extract(t.Context(), ".", bytes.NewReader(archive), ExtractOptions{})
	must(t, err)
	for name, want := range map[string]fs.FileMode{"x": 0o755, "d": 0o755 | fs.ModeSticky | fs.ModeDir} {
		info, err := os.Lstat(at(f, name))
		must(t, err)
		if info.Mode() != want {
			t.Errorf("%s has mode %v, want %v", name, info.Mode(), want)
		}
	}
}

func TestExtractRefusesEscapes(t *testing.T) {
	reg := func(name string) tar.Header { return tar.Header{Name: name, Typeflag: tar.TypeReg} }
	link := func(name, target string) tar.Header {
		return tar.Header{Name: name, Linkname: target, Typeflag: tar.TypeSymlink}
	}
	hard := func(name, target string) tar.Header {
		return tar.Header{Name: name, Linkname: target, Typeflag: tar.TypeLink}
	}
	dir := func(name string) tar.Header { return tar.Header{Name: name, Typeflag: tar.TypeDir} }
	for name, archive := range map[string][]tar.Header{
		"parent":                  {reg("../evil")},
		"parent inside":           {reg("a/../../evil")},
		"absolute":                {reg("/tmp/../evil")},
		"directory above":         {dir("../evil")},
		"link above":              {link("../evil", "x")},
		"absolute link":           {link("l", "/etc")},
		"link out":                {link("l", "../outside"), reg("l/evil")},
		"deep link out":           {link("a/b/l", "../../../outside")},
		"link by way of links":    {dir("d"), link("d/x", ".."), link("e", "d/x/../outside")},
		"link in a linked dir":    {dir("a/b"), link("a/b/s", "../.."), link("a/b/s/e", "../../../outside")},
		"hard link out":           {hard("h", "../outside/file")},
		"absolute hard link":      {hard("h", "/etc/passwd")},
		"file through old link":   {reg("old/evil")},
		"dir through old link":    {dir("old")},
		"deep through old link":   {dir("old/deep")},
		"link through old link":   {link("old/evil", "x")},
		"hard link to old link":   {hard("h", "old/file")},
		"through absolute link":   {reg("abs/evil")},
		"through chain":           {link("c1", "old"), reg("c1/evil")},
		"hard link of outer link": {hard("h", "oldfile"), reg("h")},
	} {
		t.Run(name, func(t *testing.T) {
			f := newTestFS(t)
			makeTree(t, f, "outside/file", "target/old -> ../outside", "target/abs -> "+at(f, "outside"), "target/oldfile -> ../outside/file")
			before := snapshot(t, f.Workdir())
			_, err := f.Extract(t.Context(), "target", bytes.NewReader(tarOf(t, archive...)), ExtractOptions{})
			var pathErr *fs.PathError
			if !errors.As(err, &pathErr) || !errors.Is(err, ErrUnsafeArchive) {
				t.Errorf("error is %v", err)
			} else if !slices.ContainsFunc(archive, func(h tar.Header) bool { return h.Name == pathErr.Path }) {
				t.Errorf("the error names %q, which is not an entry", pathErr.Path)
			}
			after := snapshot(t, f.Workdir())
			for path := range after {
				if path == "target" || strings.HasPrefix(path, "target/") {
					delete(after, path)
				}
			}
			for path := range before {
				if path == "target" || strings.HasPrefix(path, "target/") {
					delete(before, path)
				}
			}
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("outside of the target, something changed:\n%s", diff)
			}
		})
	}
}

func TestExtractOutsideLinksAreNotWrittenThrough(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, "outside/file", "target/")
	archive := tarOf(t,
		tar.Header{Name: "l", Linkname: "../outside", Typeflag: tar.TypeSymlink},
		tar.Header{Name: "python", Linkname: "/usr/bin/python3", Typeflag: tar.TypeSymlink},
		tar.Header{Name: "l/evil", Typeflag: tar.TypeReg})
	_, err := f.Extract(t.Context(), "target", bytes.NewReader(archive), ExtractOptions{OutsideLinks: true})
	wantPathError(t, err, "extract", "l/evil", ErrUnsafeArchive)
	wantNames(t, at(f, "target"), "l", "python")
	wantNames(t, at(f, "outside"), "file")
}

func TestExtractRefusesSpecialFiles(t *testing.T) {
	f := newTestFS(t)
	for _, typ := range []byte{tar.TypeFifo, tar.TypeChar, tar.TypeBlock} {
		_, err := f.Extract(t.Context(), ".", bytes.NewReader(tarOf(t, tar.Header{Name: "x", Typeflag: typ})), ExtractOptions{})
		wantPathError(t, err, "extract", "x", ErrNotRegular)
	}
	wantNames(t, f.Workdir())
}

func TestExtractHardLinks(t *testing.T) {
	f := newTestFS(t)
	archive := tarOf(t,
		tar.Header{Name: "d/a", Typeflag: tar.TypeReg},
		tar.Header{Name: "e/b", Linkname: "d/a", Typeflag: tar.TypeLink},
		tar.Header{Name: "e/b", Linkname: "./d/a", Typeflag: tar.TypeLink},
		tar.Header{Name: "d/a", Linkname: "d/a", Typeflag: tar.TypeLink})
	_, err := f.Extract(t.Context(), ".", bytes.NewReader(archive), ExtractOptions{})
	must(t, err)
	a, errA := os.Stat(at(f, "d/a"))
	b, errB := os.Stat(at(f, "e/b"))
	must(t, errors.Join(errA, errB))
	if !os.SameFile(a, b) {
		t.Error("the names are of two files")
	}
	wantNames(t, at(f, "e"), "b")
}

// A cut stream must never look complete, wherever it is cut: in a header, in the
// content, in the padding, or between two entries.
func TestExtractOfCutStreamFails(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, "tree/a", "tree/b/c", "tree/l -> a")
	put(t, f, "tree/zero", strings.Repeat("\x00", 2048))
	archive, _ := archived(t, f, "tree", ArchiveOptions{})
	for n := 0; n < len(archive); n += 64 {
		_, err := f.Extract(t.Context(), "copy", bytes.NewReader(archive[:n]), ExtractOptions{})
		if !errors.Is(err, io.ErrUnexpectedEOF) || !errors.Is(err, ErrBadArchive) {
			t.Errorf("cut at %d of %d: error is %v", n, len(archive), err)
		}
	}
	broken := errors.New("connection lost")
	for _, n := range []int{0, 600, 1024, len(archive) - 1024, len(archive)} {
		r := io.MultiReader(bytes.NewReader(archive[:n]), iotest.ErrReader(broken))
		if _, err := f.Extract(t.Context(), "copy", r, ExtractOptions{}); !errors.Is(err, broken) || errors.Is(err, ErrBadArchive) {
			t.Errorf("broken at %d: error is %v", n, err)
		}
	}
	padded := append(slices.Clone(archive), make([]byte, 10240)...)
	if _, err := f.Extract(t.Context(), "copy", bytes.NewReader(padded), ExtractOptions{}); err != nil {
		t.Errorf("with padding: %v", err)
	}
	_, err := f.Extract(t.Context(), "copy", bytes.NewReader(append(padded, 'x')), ExtractOptions{})
	wantPathError(t, err, "extract", "copy", ErrBadArchive)
}

func TestExtractOfInvalidArchiveFails(t *testing.T) {
	f := newTestFS(t)
	_, err := f.Extract(t.Context(), "copy", strings.NewReader(strings.Repeat("x", 1024)), ExtractOptions{})
	wantPathError(t, err, "extract", "copy", ErrBadArchive)

	unknown := tarOf(t, tar.Header{Name: "x", Typeflag: 'Y', Format: tar.FormatUSTAR})
	_, err = f.Extract(t.Context(), "copy", bytes.NewReader(unknown), ExtractOptions{})
	wantPathError(t, err, "extract", "x", ErrBadArchive)

	// The tar package does not write sparse entries, so the test replaces another
	// record of the same length.
	sparse := bytes.ReplaceAll(tarOf(t, tar.Header{
		Name: "s", Typeflag: tar.TypeReg, PAXRecords: map[string]string{"XYZ.sparse.numblocks": "0"},
	}), []byte("XYZ.sparse"), []byte("GNU.sparse"))
	_, err = f.Extract(t.Context(), "copy", bytes.NewReader(sparse), ExtractOptions{})
	wantPathError(t, err, "extract", "s", ErrBadArchive)
	wantNames(t, at(f, "copy"))
}

func TestExtractOfArchiveThatWasCutByItsSource(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, "tree/a")
	archive, _ := archived(t, f, "tree", ArchiveOptions{})
	cut := io.MultiReader(bytes.NewReader(archive[:1540]), iotest.ErrReader(io.ErrUnexpectedEOF))
	_, err := f.Extract(t.Context(), "copy", cut, ExtractOptions{})
	wantPathError(t, err, "extract", "a", ErrBadArchive)
	wantPathError(t, err, "extract", "a", io.ErrUnexpectedEOF)
}

func TestExtractThatFailsSetsTheModesOfDirectories(t *testing.T) {
	f := newTestFS(t)
	archive := tarOf(t,
		tar.Header{Name: "d", Typeflag: tar.TypeDir, Mode: 0o755, ModTime: time.Unix(1234567890, 0)},
		tar.Header{Name: "d/e", Typeflag: tar.TypeDir, Mode: 0o755, ModTime: time.Unix(1234567890, 0)},
		tar.Header{Name: "d/e/file", Typeflag: tar.TypeReg},
		tar.Header{Name: "d/fifo", Typeflag: tar.TypeFifo})
	_, err := f.Extract(t.Context(), ".", bytes.NewReader(archive), ExtractOptions{})
	wantPathError(t, err, "extract", "d/fifo", ErrNotRegular)
	for _, name := range []string{"d", "d/e"} {
		info, err := os.Stat(at(f, name))
		must(t, err)
		if info.Mode().Perm() != 0o755 || !info.ModTime().Equal(time.Unix(1234567890, 0)) {
			t.Errorf("%s has mode %v and time %v", name, info.Mode(), info.ModTime())
		}
	}
}

// An endless archive of one directory must not use endless memory.
func TestExtractRemembersARepeatedDirectoryOnce(t *testing.T) {
	f := newTestFS(t)
	root, err := os.OpenRoot(f.Workdir())
	must(t, err)
	defer root.Close()
	repeated := make([]tar.Header, 1000)
	for i := range repeated {
		repeated[i] = tar.Header{Name: "./d/", Typeflag: tar.TypeDir, Mode: int64(i & 0o100)}
	}
	x := &extractor{
		ctx: t.Context(), fsys: f, root: root, buf: make([]byte, blockSize), dirs: map[string]dirMeta{},
		in:   &archiveReader{ctx: t.Context(), r: bytes.NewReader(tarOf(t, repeated...))},
		size: newTreeSize(f.Workdir(), ExtractOptions{}),
	}
	defer x.leave()
	must(t, x.run())
	if x.stats.Entries != 1000 || len(x.dirs) != 1 {
		t.Errorf("%d directories are remembered after %d entries", len(x.dirs), x.stats.Entries)
	}
	info, err := os.Stat(at(f, "d"))
	must(t, err)
	if want := fs.FileMode(0o644 | 999&0o100); info.Mode().Perm() != want {
		t.Errorf("the mode is %v, want that of the last entry, %v", info.Mode(), want)
	}
}
