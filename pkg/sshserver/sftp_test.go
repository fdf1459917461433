package sshserver_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

// sftpOf returns an sftp client.
func (p *place) sftpOf(t testing.TB) *sftp.Client {
	t.Helper()
	c, err := sftp.NewClient(p.connect(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (p *place) has(t testing.TB, name string, want []byte) {
	t.Helper()
	if got, err := p.ReadFile(t.Context(), name); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s has %d bytes (%v), want %d", name, len(got), err, len(want))
	}
}

func TestFilesOfAnySizeTravelWhole(t *testing.T) {
	p := newPlace(t)
	c := p.sftpOf(t)
	for _, size := range []int{0, 1, 256 << 10, 256<<10 + 1, 5<<20 + 7} {
		want := content(size)
		f, err := c.OpenFile("f", os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.ReadFrom(bytes.NewReader(want)); err != nil { // several writes at once
			t.Error(err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		p.has(t, "f", want)
		f, err = c.Open("f")
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		if _, err := f.WriteTo(&got); err != nil || !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%d of %d bytes came back: %v", got.Len(), size, err)
		}
		f.Close()
	}
}

func TestAFileThatExistsIsChangedInPlace(t *testing.T) {
	p := newPlace(t)
	c := p.sftpOf(t)
	want := content(1 << 20)
	if err := p.WriteFile(t.Context(), "f", want, 0o640); err != nil {
		t.Fatal(err)
	}
	f, err := c.OpenFile("f", os.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int64{700 << 10, 5, 1<<20 - 2} {
		if _, err := f.WriteAt([]byte("here"), at); err != nil {
			t.Error(err)
		}
		want = append(want[:at], append([]byte("here"), want[min(at+4, int64(len(want))):]...)...)
	}
	read := make([]byte, 4)
	if _, err := f.ReadAt(read, 5); err != nil || string(read) != "here" {
		t.Errorf("%q, %v", read, err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	p.has(t, "f", want)
	f, err = c.OpenFile("f", os.O_WRONLY|os.O_APPEND)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("end")); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	p.has(t, "f", append(want, "end"...))
	if err := c.Truncate("f", 3); err != nil {
		t.Error(err)
	}
	p.has(t, "f", want[:3])
	if attr, err := p.Stat(t.Context(), "f"); attr.Mode.Perm() != 0o640 {
		t.Errorf("the mode is %v, %v", attr.Mode, err)
	}
}

func TestAFileThatExistsKeepsWhatIsNotWritten(t *testing.T) {
	p := newPlace(t)
	c := p.sftpOf(t)
	for what, writes := range map[string][]struct {
		at   int64
		text string
	}{
		"nothing": {}, "the beginning": {{0, "new"}}, "all": {{0, "new"}, {3, "0123456789"}},
		"backwards": {{4, "new"}, {0, "more"}}, "twice": {{0, "first"}, {0, "new"}}, "the middle": {{3, "new"}}, "a gap": {{0, "a"}, {5, "b"}},
		"behind the end": {{12, "new"}},
	} {
		want := []byte("old content")
		if err := p.WriteFile(t.Context(), "f", want, 0); err != nil {
			t.Fatal(err)
		}
		f, err := c.OpenFile("f", os.O_WRONLY)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range writes {
			if _, err := f.WriteAt([]byte(w.text), w.at); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			if missing := int(w.at) + len(w.text) - len(want); missing > 0 {
				want = append(want, make([]byte, missing)...)
			}
			copy(want[w.at:], w.text)
		}
		if err := f.Close(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if got, err := p.ReadFile(t.Context(), "f"); string(got) != string(want) {
			t.Errorf("%s: %q, want %q, %v", what, got, want, err)
		}
	}
}

func TestATransferThatIsCutLeavesWhatWasThere(t *testing.T) {
	for what, cut := range map[string]func(*ssh.Client, io.Closer){
		"the connection ends":              func(c *ssh.Client, _ io.Closer) { c.Close() },
		"the input ends, the client stays": func(_ *ssh.Client, in io.Closer) { in.Close() },
	} {
		p := newPlace(t)
		client, served := p.serve(t.Context(), t, "")
		s := open(t, client)
		in, out := pipes(t, s)
		if err := s.RequestSubsystem("sftp"); err != nil {
			t.Fatal(err)
		}
		c, err := sftp.NewClientPipe(out, in)
		if err != nil {
			t.Fatal(err)
		}
		for name, flags := range map[string]int{"f": os.O_WRONLY | os.O_TRUNC, "./g/../f2": os.O_RDWR} {
			p.begins(t, c, name, flags)
		}
		cut(client, in)
		_ = c.Wait() // for the end of the output, which comes after that of the files
		client.Close()
		if err := ended(t, served); err != nil {
			t.Error(err)
		}
		for _, name := range []string{"f", "f2"} {
			if got, err := p.ReadFile(t.Context(), name); err != nil || string(got) != "as it was" {
				t.Errorf("%s: %s has %d bytes, %v", what, name, len(got), err)
			}
		}
	}
}

// begins writes a part of a file that has a content.
func (p *place) begins(t testing.TB, c *sftp.Client, name string, flags int) {
	t.Helper()
	if err := p.WriteFile(t.Context(), path.Clean(name), []byte("as it was"), 0); err != nil {
		t.Fatal(err)
	}
	f, err := c.OpenFile(name, flags)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(content(1 << 20)); err != nil {
		t.Fatal(err)
	}
}

func TestAFailedWriteLeavesWhatWasThere(t *testing.T) {
	p := newPlace(t)
	c := p.sftpOf(t)
	for _, flags := range []int{os.O_WRONLY | os.O_TRUNC, os.O_RDWR} {
		if err := p.WriteFile(t.Context(), "f", []byte("as it was"), 0); err != nil {
			t.Fatal(err)
		}
		f, err := c.OpenFile("f", flags)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte("changed"), 0); err != nil {
			t.Error(err)
		}
		if _, err := f.WriteAt([]byte("x"), 256<<20); err == nil && flags == os.O_RDWR {
			t.Error("a file that is too long to be changed in place was written")
		}
		if _, err := f.WriteAt([]byte("again"), 0); err == nil && flags != os.O_RDWR {
			t.Error("the beginning of a new file was written twice")
		}
		if err := f.Close(); !strings.Contains(fmt.Sprint(err), "a write failed before") {
			t.Errorf("flags %#x: %v", flags, err)
		}
		p.has(t, "f", []byte("as it was"))
	}
}

func TestNamesAndAttributesAreTheSandboxs(t *testing.T) {
	p := newPlace(t)
	c := p.sftpOf(t)
	const odd = "a b\n\x1b[31m\xff"
	when := time.Unix(1700000000, 0)
	err := errors.Join(p.WriteFile(t.Context(), odd, []byte("x"), 0o600), c.Symlink("nowhere", "link"), c.Mkdir("dir"),
		c.Chmod(odd, 0o640), c.Chtimes(odd, when, when))
	if err != nil {
		t.Fatal(err)
	}
	if info, err := c.Stat(odd); err != nil || info.Mode() != 0o640 || !info.ModTime().Equal(when) || info.Size() != 1 {
		t.Errorf("%+v, %v", info, err)
	}
	if to, err := c.ReadLink("link"); to != "nowhere" {
		t.Errorf("%q, %v", to, err)
	}
	if info, err := c.Lstat("link"); err != nil || info.Mode().Type() != fs.ModeSymlink {
		t.Errorf("%v, %v", info, err)
	}
	list, err := c.ReadDir(".")
	if err != nil || len(list) != 3 {
		t.Errorf("%d entries, %v", len(list), err)
	}
	if v, err := c.StatVFS("."); err != nil || v.TotalSpace() == 0 || v.FreeSpace() > v.TotalSpace() {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestAnOpenFileHasTheAttributesThatItHas(t *testing.T) {
	p := newPlace(t)
	c := p.sftpOf(t)
	if err := p.WriteFile(t.Context(), "old", []byte("content"), 0o640); err != nil {
		t.Fatal(err)
	}
	when := time.Unix(1700000000, 0)
	if err := c.Chtimes("old", when, when); err != nil {
		t.Fatal(err)
	}
	was, err := p.Stat(t.Context(), "old")
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now().Truncate(time.Second) // all that sftp has of a time
	for name, want := range map[string]fs.FileMode{"old": 0o640, "new": 0o644} {
		f, err := c.OpenFile(name, os.O_RDWR|os.O_CREATE)
		if err != nil {
			t.Fatal(err)
		}
		open, err := f.Stat()
		if err != nil || open.Mode() != want {
			t.Errorf("%s: %v, %v", name, open, err)
		}
		attr := open.Sys().(*sftp.FileStat)
		if isOld := name == "old"; isOld && (attr.UID != was.UID || attr.GID != was.GID || !open.ModTime().Equal(when) || open.Size() != was.Size) {
			t.Errorf("%+v, it was %+v", attr, was)
		}
		if _, err := f.Write([]byte("more content")); err != nil {
			t.Error(err)
		}
		open, err = f.Stat()
		if err != nil || open.Size() != 12 || open.ModTime().Before(begun) || open.ModTime().After(time.Now()) {
			t.Errorf("%s, written: %d bytes of %v, %v", name, open.Size(), open.ModTime(), err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A gateway's own file system may be read-only.
func TestAFileIsReplacedWhereNoTemporaryFileCanBeMade(t *testing.T) {
	p := newPlace(t)
	c := p.sftpOf(t)
	t.Setenv("TMPDIR", "/nowhere")
	for _, size := range []int{100, 3 << 20} { // scp writes so, and then sets the length
		want := content(size)
		if err := p.WriteFile(t.Context(), "f", content(200), 0); err != nil {
			t.Fatal(err)
		}
		f, err := c.OpenFile("f", os.O_WRONLY|os.O_CREATE)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.ReadFrom(bytes.NewReader(want))
		if err = errors.Join(err, f.Truncate(int64(size)), f.Close()); err != nil {
			t.Errorf("%d bytes: %v", size, err)
		}
		p.has(t, "f", want)
	}
	f, err := c.OpenFile("f", os.O_WRONLY)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("x"), 0); err != nil {
		t.Error(err)
	}
	_, elsewhere := f.WriteAt([]byte("x"), 0)
	f.Close()
	_, opened := c.OpenFile("f", os.O_RDWR)
	for what, err := range map[string]error{"a write in the middle": elsewhere, "an open for both": opened, "a length": c.Truncate("f", 5)} {
		if errors.Is(err, fs.ErrNotExist) || !strings.Contains(fmt.Sprint(err), "no temporary file can be made here") {
			t.Errorf("%s: %v", what, err)
		}
	}
	p.has(t, "f", content(3<<20))
}

func TestFilesAreRefusedAsByTheSystem(t *testing.T) {
	p := newPlace(t)
	c := p.sftpOf(t)
	for _, name := range []string{"f", "g"} {
		if err := p.WriteFile(t.Context(), name, []byte(name), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Mkdir("dir"); err != nil {
		t.Fatal(err)
	}
	_, missing := c.Open("missing")
	_, exclusive := c.OpenFile("f", os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	_, listed := c.ReadDir("f")
	for what, err := range map[string]error{
		"a missing file": missing, "an exclusive one": exclusive, "a rename onto a file": c.Rename("f", "g"),
		"rmdir of a file": c.RemoveDirectory("f"), "a hard link": c.Link("f", "h"), "a list of a file": listed,
	} {
		if err == nil {
			t.Errorf("%s was taken", what)
		}
	}
	if !errors.Is(missing, fs.ErrNotExist) {
		t.Error(missing)
	}
	if err := c.PosixRename("f", "g"); err != nil {
		t.Error(err)
	}
	p.has(t, "g", []byte("f"))
}

// A client that copies a tree is not to send a file for nothing.
func TestANewFileWhereNoDirectoryIsFailsWhenItIsOpened(t *testing.T) {
	p := newPlace(t)
	c := p.sftpOf(t)
	if err := p.WriteFile(t.Context(), "f", nil, 0); err != nil {
		t.Fatal(err)
	}
	for _, flags := range []int{os.O_WRONLY | os.O_CREATE, os.O_WRONLY | os.O_CREATE | os.O_TRUNC, os.O_RDWR | os.O_CREATE} {
		if _, err := c.OpenFile("missing/dir/f", flags); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("in a missing directory, with the flags %#x: %v", flags, err)
		}
		if _, err := c.OpenFile("f/g", flags); err == nil {
			t.Errorf("in a file, with the flags %#x, it was opened", flags)
		}
	}
}

func TestOpenFilesAreBounded(t *testing.T) {
	p := newPlace(t)
	c := p.sftpOf(t)
	if err := p.WriteFile(t.Context(), "f", []byte("x"), 0); err != nil {
		t.Fatal(err)
	}
	var files []*sftp.File
	for range 200 {
		f, err := c.Open("f")
		if err != nil {
			break
		}
		files = append(files, f)
	}
	if _, err := c.Open("f"); len(files) != 100 || !strings.Contains(fmt.Sprint(err), "f: this session has 100 files open") {
		t.Errorf("%d files are open at once: %v", len(files), err)
	}
	for _, f := range files {
		f.Close()
	}
	files = nil
	for i := range 20 {
		name := fmt.Sprint("spool", i)
		f, err := c.OpenFile(name, os.O_RDWR|os.O_CREATE)
		if err != nil {
			break
		}
		files = append(files, f)
	}
	if len(files) != 8 {
		t.Errorf("%d files are changed in place at once", len(files))
	}
	for _, f := range files {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	f, err := c.OpenFile("order", os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("x"), 100<<20); err != nil {
		t.Error(err) // what belongs in front of it may still come
	}
	if err := f.Close(); !strings.Contains(fmt.Sprint(err), "from its beginning to its end") {
		t.Errorf("a file with a hole: %v", err)
	}
	if _, err := p.Stat(t.Context(), "order"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a part of a file is there: %v", err)
	}
}
