package fsops

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestExtractBoundsBytesAndEntries(t *testing.T) {
	file := func(name string, size int64) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeReg, Size: size, Mode: 0o644}
	}
	comment := tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": "x"}}
	for name, test := range map[string]struct {
		entries []tar.Header
		opts    ExtractOptions
		there   []string
		want    error
	}{
		"as many bytes as may be":   {[]tar.Header{file("a", 600), file("b", 400)}, ExtractOptions{MaxBytes: 1000}, []string{"a", "b"}, nil},
		"more bytes":                {[]tar.Header{file("a", 600), file("b", 401)}, ExtractOptions{MaxBytes: 1000}, []string{"a"}, syscall.EFBIG},
		"no bound":                  {[]tar.Header{file("a", 600), file("b", 401)}, ExtractOptions{MaxBytes: -1, MaxEntries: -1}, []string{"a", "b"}, nil},
		"as many entries as may be": {[]tar.Header{file("a", 0), file("b", 0)}, ExtractOptions{MaxEntries: 2}, []string{"a", "b"}, nil},
		"more entries":              {[]tar.Header{file("a", 0), file("b", 0)}, ExtractOptions{MaxEntries: 1}, []string{"a"}, syscall.EFBIG},
		"comments are entries":      {[]tar.Header{comment, comment, file("a", 0)}, ExtractOptions{MaxEntries: 2}, nil, syscall.EFBIG},
		"a long name":               {[]tar.Header{file(strings.Repeat("x/", 40<<10)+"x", 0)}, ExtractOptions{}, nil, syscall.ENAMETOOLONG},
	} {
		t.Run(name, func(t *testing.T) {
			f := newTestFS(t)
			var archive bytes.Buffer
			w := tar.NewWriter(&archive)
			for _, h := range test.entries {
				must(t, w.WriteHeader(&h))
				_, err := w.Write(make([]byte, h.Size))
				must(t, err)
			}
			must(t, w.Close())
			_, err := f.Extract(t.Context(), "to", &archive, test.opts)
			var pathErr *fs.PathError
			if !errors.Is(err, test.want) || err != nil && !errors.As(err, &pathErr) {
				t.Errorf("the error is %v, want %v", err, test.want)
			}
			wantNames(t, at(f, "to"), test.there...)
		})
	}
}

func TestExtractEndsPaddingWithoutEnd(t *testing.T) {
	f := newTestFS(t)
	for n, want := range map[int64]error{10 << 10: nil, 1 << 20: nil, math.MaxInt64: ErrBadArchive} {
		r := io.LimitReader(zeroReader{}, n)
		if _, err := f.Extract(t.Context(), "to", r, ExtractOptions{}); !errors.Is(err, want) {
			t.Errorf("%d zeros: %v, want %v", n, err, want)
		}
	}
}

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestExtractBoundsTheMemoryForDirectories(t *testing.T) {
	size := newTreeSize(t.TempDir(), ExtractOptions{})
	var err error
	n := 0
	for ; err == nil && n < 10_000_000; n++ {
		err = size.addDir("a/directory/of/a/large/repository")
	}
	if !errors.Is(err, syscall.EFBIG) || n < 400_000 {
		t.Errorf("after %d directories: %v", n, err)
	}
}

func TestExtractLeavesRoom(t *testing.T) {
	dir := t.TempDir()
	free, ok := freeSpace(dir)
	if !ok {
		t.Fatal("the file system does not tell how much room it has")
	}
	for reserve, want := range map[int64]error{1: nil, math.MaxInt64: syscall.ENOSPC} {
		size := newTreeSize(dir, ExtractOptions{})
		if size.reserve <= 0 || size.reserve > free/2 {
			t.Fatalf("of %d bytes, %d are to stay free", free, size.reserve)
		}
		size.reserve = reserve
		if err := size.addBytes(roomStep); !errors.Is(err, want) {
			t.Errorf("with %d to stay free: %v, want %v", reserve, err, want)
		}
	}
}

func TestExtractAppliesTheUmaskUnlessModesAreKept(t *testing.T) {
	mask := umask()
	if mask == 0 {
		t.Fatal("this test needs a umask other than 0")
	}
	archive := tarOf(t, tar.Header{Name: "d/", Typeflag: tar.TypeDir, Mode: 0o777}, tar.Header{Name: "d/x", Typeflag: tar.TypeReg, Mode: 0o777})
	for keep, want := range map[bool]fs.FileMode{false: 0o777 &^ mask, true: 0o777} {
		f := newTestFS(t)
		_, err := f.Extract(t.Context(), ".", bytes.NewReader(archive), ExtractOptions{KeepModes: keep})
		must(t, err)
		for _, name := range []string{"d", "d/x"} {
			info, err := os.Stat(at(f, name))
			must(t, err)
			if got := info.Mode().Perm(); got != want {
				t.Errorf("with KeepModes %v %s has mode %v, want %v", keep, name, got, want)
			}
		}
	}
}

func TestUmaskIsThatOfTheProcess(t *testing.T) {
	path := t.TempDir() + "/x"
	must(t, os.Mkdir(path, 0o777))
	info, err := os.Stat(path)
	must(t, err)
	if got, want := fmt.Sprint(0o777&^umask()), fmt.Sprint(info.Mode().Perm()); got != want {
		t.Errorf("a directory has mode %s, and by the umask %s", want, got)
	}
}
