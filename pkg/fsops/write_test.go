//go:build unix

package fsops

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"syscall"
	"testing"
)

func TestWriteRoundTrips(t *testing.T) {
	for name, content := range map[string]string{
		"empty": "", "one byte": "\x00", "new\nline": "a\r\nb", "\xff\xfe": "\xff\x00\xfe", "-rf *": "$(x)",
	} {
		f := newTestFS(t)
		res := mustWrite(t, f, name, content, WriteOptions{})
		if !res.Created || res.InPlace || res.Attr.Path != name || res.Attr.Size != int64(len(content)) {
			t.Errorf("writing %q says %+v", name, res)
		}
		if got := mustRead(t, f, name, ReadOptions{}); got != content {
			t.Errorf("%q holds %q, want %q", name, got, content)
		}
		wantNames(t, f.Workdir(), name)
	}
}

func TestWriteStreamsLargeFiles(t *testing.T) {
	const size = 64 << 20
	f := newTestFS(t)
	block := bytes.Repeat([]byte("0123456789abcdef"), blockSize/16)
	var sum, copied Sum
	allocated := allocatedBy(func() {
		w, err := f.Create("big", WriteOptions{})
		must(t, err)
		for range size / len(block) {
			_, err := w.Write(block)
			must(t, err)
			sum.Add(block)
		}
		_, err = w.Commit(t.Context(), sum)
		must(t, err)
		res, err := f.Read(t.Context(), "big", writerFunc(func(p []byte) { copied.Add(p) }), ReadOptions{})
		must(t, err)
		if res.Sum != sum || copied != sum {
			t.Errorf("wrote %v, read %v, got %v", sum, res.Sum, copied)
		}
	})
	if allocated > 4<<20 {
		t.Errorf("moving %d bytes allocated %d", size, allocated)
	}
}

type writerFunc func([]byte)

func (w writerFunc) Write(p []byte) (int, error) { w(p); return len(p), nil }

func TestAbandonedWriteLeavesNothing(t *testing.T) {
	f := newTestFS(t)
	put(t, f, "file", "former")
	for _, name := range []string{"file", "new"} {
		w, err := f.Create(name, WriteOptions{})
		must(t, err)
		_, err = w.Write([]byte("partial"))
		must(t, err)
		must(t, w.Close())
		must(t, w.Close())
		_, err = w.Commit(t.Context(), sumOf("partial"))
		wantPathError(t, err, "write", name, fs.ErrClosed)
		_, err = w.Write([]byte("more"))
		wantPathError(t, err, "write", name, fs.ErrClosed)
	}
	wantContent(t, f, "file", "former")
	wantNames(t, f.Workdir(), "file")
}

func TestWriteChecksSizeAndChecksum(t *testing.T) {
	f := newTestFS(t)
	put(t, f, "file", "former")
	for _, sum := range []Sum{
		{Size: 3, CRC32C: sumOf("content").CRC32C},
		{Size: 7, CRC32C: sumOf("contenu").CRC32C},
		{},
	} {
		w, err := f.Create("file", WriteOptions{})
		must(t, err)
		_, err = w.Write([]byte("content"))
		must(t, err)
		_, err = w.Commit(t.Context(), sum)
		wantPathError(t, err, "write", "file", ErrChecksum)
	}
	wantContent(t, f, "file", "former")
	wantNames(t, f.Workdir(), "file")
}

func TestWriteDoesNotHappenAfterItsContext(t *testing.T) {
	f := newTestFS(t)
	put(t, f, "file", "former")
	w, err := f.Create("file", WriteOptions{})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = w.Commit(ctx, Sum{})
	wantPathError(t, err, "write", "file", context.Canceled)
	wantContent(t, f, "file", "former")
	wantNames(t, f.Workdir(), "file")
}

func TestWriteErrors(t *testing.T) {
	f := newTestFS(t)
	must(t, f.Mkdir("dir", MkdirOptions{}))
	put(t, f, "file", "")
	must(t, f.Symlink("loop2", "loop1"))
	must(t, f.Symlink("loop1", "loop2"))
	for name, class := range map[string]error{
		"dir": syscall.EISDIR, "absent/x": fs.ErrNotExist, "file/x": syscall.ENOTDIR, "loop1": syscall.ELOOP,
		"loop1/x": syscall.ELOOP, "/dev/null": ErrNotRegular, "": syscall.EINVAL,
		"/proc/self/status/x": syscall.ENOTDIR, string(bytes.Repeat([]byte("x"), 300)): syscall.ENAMETOOLONG,
	} {
		_, err := write(t, f, name, "x", WriteOptions{})
		wantPathError(t, err, "write", name, class)
	}
	wantNames(t, f.Workdir(), "dir", "file", "loop1", "loop2")
}

func TestWriteMakesParents(t *testing.T) {
	f := newTestFS(t)
	mustWrite(t, f, "a/b/c", "x", WriteOptions{Parents: true})
	wantContent(t, f, "a/b/c", "x")
	_, err := write(t, f, "a/b/c/d", "x", WriteOptions{Parents: true})
	wantPathError(t, err, "write", "a/b/c/d", syscall.ENOTDIR)
}

func TestWriteExclusive(t *testing.T) {
	f := newTestFS(t)
	mustWrite(t, f, "file", "first", WriteOptions{Exclusive: true})
	_, err := write(t, f, "file", "second", WriteOptions{Exclusive: true})
	wantPathError(t, err, "write", "file", fs.ErrExist)

	w, err := f.Create("late", WriteOptions{Exclusive: true})
	must(t, err)
	put(t, f, "late", "other")
	_, err = w.Commit(t.Context(), Sum{})
	wantPathError(t, err, "write", "late", fs.ErrExist)
	wantContent(t, f, "file", "first")
	wantContent(t, f, "late", "other")
	wantNames(t, f.Workdir(), "file", "late")
}

func TestWriteIfMatch(t *testing.T) {
	f := newTestFS(t)
	put(t, f, "file", "a")
	attr, err := f.Stat("file")
	must(t, err)
	res := mustWrite(t, f, "file", "b", WriteOptions{IfMatch: attr.ETag})
	_, err = write(t, f, "file", "c", WriteOptions{IfMatch: attr.ETag})
	wantPathError(t, err, "write", "file", ErrChanged)
	_, err = write(t, f, "absent/file", "c", WriteOptions{IfMatch: attr.ETag, Parents: true})
	wantPathError(t, err, "write", "absent/file", fs.ErrNotExist)

	w, err := f.Create("file", WriteOptions{IfMatch: res.Attr.ETag})
	must(t, err)
	mustWrite(t, f, "file", "d", WriteOptions{})
	_, err = w.Commit(t.Context(), Sum{})
	wantPathError(t, err, "write", "file", ErrChanged)
	wantContent(t, f, "file", "d")
	wantNames(t, f.Workdir(), "file")
}

func TestWriteFollowsSymlinks(t *testing.T) {
	f := newTestFS(t)
	must(t, f.Mkdir("real/sub", MkdirOptions{Parents: true}))
	must(t, f.Mkdir("links", MkdirOptions{}))
	put(t, f, "real/file", "former")
	must(t, f.Symlink("../real/file", "links/relative"))
	must(t, f.Symlink(at(f, "real/file"), "links/absolute"))
	must(t, f.Symlink("relative", "links/chain"))
	must(t, f.Symlink("../real/new", "links/dangling"))
	must(t, f.Symlink("real/sub", "dirlink"))
	// In the file system this is real/via-dir; by its text alone it would be
	// ./via-dir.
	must(t, f.Symlink("../dirlink/../via-dir", "links/via-dir"))

	for _, link := range []string{"relative", "absolute", "chain"} {
		res := mustWrite(t, f, "links/"+link, link, WriteOptions{})
		wantContent(t, f, "real/file", link)
		if res.Created {
			t.Errorf("%s: Created, though the file existed", link)
		}
	}
	for _, link := range []string{"dangling", "via-dir"} {
		if res := mustWrite(t, f, "links/"+link, link, WriteOptions{}); !res.Created {
			t.Errorf("%s: not Created", link)
		}
	}
	wantContent(t, f, "real/new", "dangling")
	wantContent(t, f, "real/via-dir", "via-dir")
	wantNames(t, at(f, "real"), "file", "new", "sub", "via-dir")
	for _, link := range []string{"relative", "absolute", "chain", "dangling", "via-dir"} {
		if attr, err := f.Lstat("links/" + link); err != nil || attr.Target == "" {
			t.Errorf("%s is no longer a link: %+v, %v", link, attr, err)
		}
	}
}

func TestWriteModes(t *testing.T) {
	f := newTestFS(t)
	for _, c := range []struct {
		perm, want fs.FileMode
	}{{0, 0o644}, {0o600, 0o600}, {0o777, 0o755}, {0o444, 0o444}} {
		name := c.perm.String()
		mustWrite(t, f, name, "x", WriteOptions{Perm: c.perm})
		if attr, err := f.Stat(name); err != nil || attr.Mode != c.want {
			t.Errorf("a new file of mode %v has mode %v (%v)", c.perm, attr.Mode, err)
		}
	}
	for _, mode := range []fs.FileMode{0o600, 0o640, 0o777, 0o755 | fs.ModeSetuid, 0o755 | fs.ModeSetgid} {
		put(t, f, "existing", "former")
		must(t, f.Chmod("existing", mode))
		mustWrite(t, f, "existing", "x", WriteOptions{Perm: 0o666})
		if attr, err := f.Stat("existing"); err != nil || attr.Mode != mode {
			t.Errorf("an existing file of mode %v has mode %v (%v)", mode, attr.Mode, err)
		}
	}
}

func TestWriteSynced(t *testing.T) {
	f := newTestFS(t)
	for _, content := range []string{"first", "second"} {
		mustWrite(t, f, "file", content, WriteOptions{Sync: true})
		wantContent(t, f, "file", content)
	}
	wantNames(t, f.Workdir(), "file")
}

func TestReadersSeeWholeFilesDuringWrites(t *testing.T) {
	f := newTestFS(t)
	contents := []string{string(bytes.Repeat([]byte("a"), 100_000)), string(bytes.Repeat([]byte("b"), 50_000))}
	put(t, f, "file", contents[0])
	done := make(chan error, 1)
	go func() {
		for i := range 100 {
			if _, err := write(t, f, "file", contents[i%2], WriteOptions{}); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for {
		select {
		case err := <-done:
			must(t, err)
			return
		default:
		}
		if got, err := os.ReadFile(at(f, "file")); err != nil || string(got) != contents[0] && string(got) != contents[1] {
			t.Fatalf("read %d bytes of neither content (%v)", len(got), err)
		}
	}
}

// A spool has a name if the file system does not support unnamed files.
func TestNamedSpool(t *testing.T) {
	f := newTestFS(t)
	put(t, f, "file", "former")
	must(t, f.Chmod("file", 0o640))
	named := func(name, content string, opts WriteOptions) *Writer {
		w, err := f.Create(name, opts)
		must(t, err)
		must(t, w.spool.close())
		path := at(f, ".tmp-spool")
		file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
		must(t, err)
		w.spool = &spool{file: file, name: path, beside: true}
		_, err = w.Write([]byte(content))
		must(t, err)
		return w
	}
	must(t, named("file", "broken off", WriteOptions{}).Close())
	wantNames(t, f.Workdir(), "file")

	for _, name := range []string{"file", "new"} {
		_, err := named(name, "content", WriteOptions{Sync: true}).Commit(t.Context(), sumOf("content"))
		must(t, err)
		wantContent(t, f, name, "content")
	}
	if attr, err := f.Stat("file"); err != nil || attr.Mode != 0o640 {
		t.Errorf("mode is %v (%v)", attr.Mode, err)
	}
	w := named("late", "content", WriteOptions{Exclusive: true})
	put(t, f, "late", "other")
	_, err := w.Commit(t.Context(), sumOf("content"))
	wantPathError(t, err, "write", "late", fs.ErrExist)

	w = named("late2", "content", WriteOptions{})
	put(t, f, "late2", "other")
	_, err = w.Commit(t.Context(), sumOf("content"))
	must(t, err)
	wantContent(t, f, "late2", "content")
	wantNames(t, f.Workdir(), "file", "late", "late2", "new")
}
