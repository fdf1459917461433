package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi/wire"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// upload writes size bytes of a pattern to name, and returns their SHA-256.
func upload(t *testing.T, s *launcher.Sandbox, name string, size int64, seed uint64) {
	t.Helper()
	w, err := s.Create(t.Context(), name, fsops.WriteOptions{})
	if err != nil {
		t.Error(err)
		return
	}
	defer w.Close()
	if _, err := io.Copy(w, harness.Pattern(size, seed)); err != nil {
		t.Error(err)
		return
	}
	if result, err := w.Commit(); err != nil || result.Attr.Size != size {
		t.Errorf("wrote %d of %d bytes: %v", result.Attr.Size, size, err)
	}
}

func TestRoundTripOfEverySize(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		for _, size := range []int64{0, 1, wire.ChunkSize - 1, wire.ChunkSize, wire.ChunkSize + 1, 10 << 20} {
			upload(t, s, "file", size, uint64(size))
			harness.Download(t, s, "file", size, uint64(size))
		}
	})
}

func TestNamesAreBytes(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		for _, name := range []string{
			"with space", "new\nline", "invalid \xff\xfe UTF-8", "ünïcødé 🙂", "-rf", "a:b", "$(touch pwned)", "`id`", "'\"", "*?[x]", "\t", "\\",
		} {
			harness.Put(t, s, "names/"+name, "content of "+name)
			if got := harness.Get(t, s, "names/"+name); got != "content of "+name {
				t.Errorf("%q has %q", name, got)
			}
			if got := harness.Names(t, s, "names"); !cmp.Equal(got, []string{name}) {
				t.Errorf("listing has %q, want %q", got, name)
			}
			var found []string
			for m, err := range s.Glob(t.Context(), "names/*", fsops.GlobOptions{}) {
				if err != nil {
					t.Fatal(err)
				}
				found = append(found, m.Path)
			}
			if !cmp.Equal(found, []string{"names/" + name}) {
				t.Errorf("glob has %q, want %q", found, name)
			}
			if err := s.Rename(t.Context(), "names/"+name, "renamed"); err != nil {
				t.Error(err)
			}
		}
		if _, err := s.Stat(t.Context(), "pwned"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a shell ran a name: %v", err)
		}
	})
}

func TestContentIsBytes(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		all := make([]byte, 0, 512)
		for i := range 256 {
			all = append(all, byte(i), 0)
		}
		for _, content := range []string{"", "\x00", "\xff\xfe", string(all), strings.Repeat("\r\n", 1000)} {
			harness.Put(t, s, "file", content)
			if got := harness.Get(t, s, "file"); got != content {
				t.Errorf("got %q, want %q", got, content)
			}
		}
	})
}

func TestWriteMakesNestedParents(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		harness.Put(t, s, "a/b/c/d", "x")
		if got := harness.Get(t, s, "a/b/c/d"); got != "x" {
			t.Errorf("got %q", got)
		}
		err := s.WriteFile(t.Context(), "no/such/dir", nil, 0o666)
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("without Parents: %v", err)
		}
	})
}

func TestWriteOfClientThatIsKilledLeavesTheOldContent(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		harness.Put(t, s, "dir/file", "old")
		ctx, kill := context.WithCancel(t.Context())
		w, err := s.Create(ctx, "dir/file", fsops.WriteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(w, harness.Pattern(8<<20, 1)); err != nil {
			t.Fatal(err)
		}
		kill()
		if _, err := w.Commit(); !errors.Is(err, context.Canceled) {
			t.Errorf("the write ended with %v", err)
		}
		harness.Intact(t, s, "dir", "file", "old")
	})
}

func TestConcurrentEditsOfOneFileAreAllThere(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		const edits = 64
		var content strings.Builder
		for i := range edits {
			fmt.Fprintf(&content, "line <%d>\n", i)
		}
		harness.Put(t, s, "file", content.String())
		var all sync.WaitGroup
		for i := range edits {
			all.Go(func() {
				edit := fsops.Edit{Old: fmt.Appendf(nil, "<%d>", i), New: fmt.Appendf(nil, "[%d edited]", i)}
				if _, err := s.Edit(t.Context(), "file", []fsops.Edit{edit}, fsops.EditOptions{}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		got := harness.Get(t, s, "file")
		for i := range edits {
			if want := fmt.Sprintf("line [%d edited]\n", i); !strings.Contains(got, want) {
				t.Errorf("%q is missing", want)
			}
		}
	})
}

func TestEditThatIsNotUniqueLeavesTheFileAndSaysTheCount(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		for _, test := range []struct {
			content string
			count   int
		}{{"one two one", 2}, {"nothing of it", 0}} {
			harness.Put(t, s, "file", test.content)
			_, err := s.Edit(t.Context(), "file", []fsops.Edit{{Old: []byte("one"), New: []byte("1")}}, fsops.EditOptions{})
			var editErr *fsops.EditError
			if !errors.As(err, &editErr) || editErr.Count != test.count {
				t.Errorf("%q: %v, want a count of %d", test.content, err, test.count)
			}
			if got := harness.Get(t, s, "file"); got != test.content {
				t.Errorf("the file is now %q", got)
			}
		}
	})
}

func TestEditAnswersWithOccurrencesAndDiff(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		harness.Put(t, s, "file", "a\nb\na\n")
		r, err := s.Edit(t.Context(), "file", []fsops.Edit{{Old: []byte("a"), New: []byte("x"), All: true}}, fsops.EditOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if !cmp.Equal(r.Occurrences, []int{2}) || !bytes.Contains(r.Diff, []byte("-a\n+x\n b\n-a\n+x\n")) {
			t.Errorf("got %v occurrences and\n%s", r.Occurrences, r.Diff)
		}
		if got := harness.Get(t, s, "file"); got != "x\nb\nx\n" {
			t.Errorf("the file is now %q", got)
		}
	})
}

func TestFSPassesTestFS(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		harness.Put(t, s, "tree/file", "content")
		harness.Put(t, s, "tree/empty", "")
		harness.Put(t, s, "tree/dir/sub/deep", strings.Repeat("x", 5000))
		if err := s.Mkdir(t.Context(), "tree/emptydir", 0o777); err != nil {
			t.Fatal(err)
		}
		if err := s.Symlink(t.Context(), "file", "tree/link"); err != nil {
			t.Fatal(err)
		}
		if err := fstest.TestFS(s.FS(t.Context(), "tree"), "file", "empty", "dir/sub/deep", "emptydir", "link"); err != nil {
			t.Error(err)
		}
	})
}

func TestOpenReadsAtAndSeeks(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		const size = 3 << 20
		content, err := io.ReadAll(harness.Pattern(size, 3))
		if err != nil {
			t.Fatal(err)
		}
		harness.Put(t, s, "file", string(content))
		f, err := s.Open(t.Context(), "file")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		// The section reader uses ReadAt; the tester reads in unusual ways.
		if got, n := harness.SHA(t, io.NewSectionReader(f, 0, size)); n != size || got != first(harness.SHA(t, bytes.NewReader(content))) {
			t.Errorf("ReadAt gives %d bytes that differ", n)
		}
		for _, at := range []int64{0, 1, size - 5, size / 2} {
			if _, err := f.Seek(at-size, io.SeekEnd); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, 5)
			if _, err := io.ReadFull(f, got); err != nil || !bytes.Equal(got, content[at:at+5]) {
				t.Errorf("at %d: %v: %x, want %x", at, err, got, content[at:at+5])
			}
		}
		if n, err := f.ReadAt(make([]byte, 10), size-4); n != 4 || err != io.EOF {
			t.Errorf("ReadAt over the end: %d, %v", n, err)
		}
	})
}

func first[A, B any](a A, _ B) A { return a }

// summer computes a checksum of what is written to it.
type summer struct{ sum fsops.Sum }

func (s *summer) Write(p []byte) (int, error) {
	s.sum.Add(p)
	return len(p), nil
}

func TestFileOperationsFailWithTheirClass(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		ctx := t.Context()
		harness.Put(t, s, "file", "x")
		harness.Put(t, s, "dir/inner", "x")
		for _, link := range [][2]string{{"loop", "loop"}} {
			if err := s.Symlink(ctx, link[1], link[0]); err != nil {
				t.Fatal(err)
			}
		}
		read := func(name string) error { _, err := s.ReadFile(ctx, name); return err }
		for _, test := range []struct {
			what string
			err  error
			want error
		}{
			{"read what is not there", read("none"), fs.ErrNotExist},
			{"read a directory", read("dir"), syscall.EISDIR},
			{"read through a file", read("file/x"), syscall.ENOTDIR},
			{"read a loop", read("loop"), syscall.ELOOP},
			{"read a long name", read(strings.Repeat("x", 300)), syscall.ENAMETOOLONG},
			{"make what is there", s.Mkdir(ctx, "dir", 0o777), fs.ErrExist},
			{"remove a full directory", s.Remove(ctx, "dir"), syscall.ENOTEMPTY},
			{"remove what is not there", s.Remove(ctx, "none"), fs.ErrNotExist},
			{"link over a file", s.Symlink(ctx, "x", "file"), fs.ErrExist},
			{"rename over a file", s.RenameNoReplace(ctx, "dir/inner", "file"), fs.ErrExist},
			{"copy a directory as a file", s.Copy(ctx, "dir", "copy", fsops.CopyOptions{}), syscall.EISDIR},
			{"chmod what is not there", s.Chmod(ctx, "none", 0o600), fs.ErrNotExist},
		} {
			if !errors.Is(test.err, test.want) {
				t.Errorf("%s: %v, want %v", test.what, test.err, test.want)
			}
			var pathErr *fs.PathError
			var linkErr *os.LinkError
			if !errors.As(test.err, &pathErr) && !errors.As(test.err, &linkErr) {
				t.Errorf("%s: %#v names no path", test.what, test.err)
			}
		}
	})
}

func TestDirectoryOperations(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		ctx := t.Context()
		steps := []error{
			s.MkdirAll(ctx, "a/b", 0o777),
			s.MkdirAll(ctx, "a/b", 0o777),
			s.Symlink(ctx, "b/file", "a/link"),
		}
		harness.Put(t, s, "a/b/file", "x")
		steps = append(steps,
			s.Chmod(ctx, "a/b/file", 0o640),
			s.Copy(ctx, "a", "copy", fsops.CopyOptions{Recursive: true}),
			s.Rename(ctx, "copy", "moved"),
		)
		if err := errors.Join(steps...); err != nil {
			t.Fatal(err)
		}
		attr, err := s.Stat(ctx, "moved/link")
		if err != nil || attr.Mode != 0o640 || attr.Size != 1 {
			t.Errorf("the copy through its link: %+v, %v", attr, err)
		}
		link, err := s.Lstat(ctx, "moved/link")
		if err != nil || link.Mode.Type() != fs.ModeSymlink || link.Target != "b/file" {
			t.Errorf("the copied link: %+v, %v", link, err)
		}
		var all []string
		for attr, err := range s.List(ctx, "moved", fsops.ListOptions{Recursive: true}) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, attr.Path)
		}
		if want := []string{"moved/b", "moved/b/file", "moved/link"}; !slices.Equal(all, want) {
			t.Errorf("list has %q, want %q", all, want)
		}
		if err := s.RemoveAll(ctx, "moved"); err != nil {
			t.Error(err)
		}
		if got := harness.Names(t, s, "."); !slices.Equal(got, []string{"a"}) {
			t.Errorf("left is %q", got)
		}
	})
}

func TestWriterThatIsClosedWithoutCommitLeavesTheOldContent(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		harness.Put(t, s, "dir/file", "old")
		w, err := s.Create(t.Context(), "dir/file", fsops.WriteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(w, io.MultiReader(strings.NewReader("half"), failing{io.ErrUnexpectedEOF})); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("Copy: %v", err)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		if _, err := w.Commit(); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("Commit after Close: %v", err)
		}
		harness.Intact(t, s, "dir", "file", "old")
	})
}
