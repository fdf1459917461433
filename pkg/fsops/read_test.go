//go:build unix

package fsops

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestReadRanges(t *testing.T) {
	f := newTestFS(t)
	content := strings.Repeat("0123456789", blockSize/10*2+3)
	put(t, f, "file", content)
	size := int64(len(content))
	for _, o := range []ReadOptions{
		{},
		{Offset: 3},
		{Length: 4},
		{Offset: 7, Length: 5},
		{Offset: blockSize - 1, Length: 2},
		{Offset: size - 2, Length: 100},
		{Offset: size},
		{Offset: size + 100, Length: 1},
		{Offset: 1, Length: math.MaxInt64},
	} {
		start := min(o.Offset, size)
		end := size
		if o.Length > 0 && o.Length < size-start {
			end = start + o.Length
		}
		if got := mustRead(t, f, "file", o); got != content[start:end] {
			t.Errorf("%+v read %d bytes, want %d", o, len(got), end-start)
		}
	}
}

func TestReadErrors(t *testing.T) {
	f := newTestFS(t)
	must(t, f.Mkdir("dir", MkdirOptions{}))
	for name, class := range map[string]error{
		"absent": fs.ErrNotExist, "dir": syscall.EISDIR, "/dev/null": ErrNotRegular, "/dev/zero": ErrNotRegular,
	} {
		_, err := f.Read(t.Context(), name, io.Discard, ReadOptions{})
		wantPathError(t, err, "read", name, class)
		_, err = f.ReadLines(t.Context(), name, LineOptions{})
		wantPathError(t, err, "read", name, class)
	}
	put(t, f, "file", "x")
	for _, o := range []ReadOptions{{Offset: -1}, {Length: -1}} {
		_, err := f.Read(t.Context(), "file", io.Discard, o)
		wantPathError(t, err, "read", "file", syscall.EINVAL)
	}
	for _, o := range []LineOptions{{First: -1}, {Max: -1}, {MaxBytes: -1}} {
		_, err := f.ReadLines(t.Context(), "file", o)
		wantPathError(t, err, "read", "file", syscall.EINVAL)
	}
}

func TestReadDoesNotWaitForFIFOsAndSockets(t *testing.T) {
	f := newTestFS(t)
	must(t, syscall.Mkfifo(at(f, "fifo"), 0o600))
	// The address is relative because socket addresses must be short.
	t.Chdir(f.Workdir())
	l, err := net.Listen("unix", "sock")
	must(t, err)
	defer l.Close()
	for _, name := range []string{"fifo", "sock"} {
		_, err := f.Read(t.Context(), name, io.Discard, ReadOptions{})
		wantPathError(t, err, "read", name, ErrNotRegular)
		_, err = f.ReadLines(t.Context(), name, LineOptions{})
		wantPathError(t, err, "read", name, ErrNotRegular)
		_, err = f.Create(name, WriteOptions{})
		wantPathError(t, err, "write", name, ErrNotRegular)
		_, err = f.Edit(t.Context(), name, []Edit{{Old: []byte("a")}}, EditOptions{})
		wantPathError(t, err, "edit", name, ErrNotRegular)
	}
}

func TestReadOfAFileWithoutASize(t *testing.T) {
	got := mustRead(t, newTestFS(t), "/proc/meminfo", ReadOptions{})
	if !strings.HasPrefix(got, "MemTotal:") || !strings.HasSuffix(got, "\n") {
		t.Errorf("read %q", got)
	}
}

// failingWriter fails or ends a context after some calls.
type failingWriter struct {
	calls int
	stop  func() error
}

func (w *failingWriter) Write(p []byte) (int, error) {
	if w.calls++; w.calls == 2 {
		return 0, w.stop()
	}
	return len(p), nil
}

func TestReadReturnsTheWritersError(t *testing.T) {
	f := newTestFS(t)
	put(t, f, "file", strings.Repeat("x", 4*blockSize))
	broken := errors.New("broken")
	_, err := f.Read(t.Context(), "file", &failingWriter{stop: func() error { return broken }}, ReadOptions{})
	if err != broken {
		t.Errorf("error is %v, want the writer's", err)
	}
}

func TestReadEndsWithItsContext(t *testing.T) {
	f := newTestFS(t)
	put(t, f, "file", strings.Repeat("x", 4*blockSize))
	ctx, cancel := context.WithCancel(t.Context())
	w := &failingWriter{stop: func() error { cancel(); return nil }}
	_, err := f.Read(ctx, "file", w, ReadOptions{})
	wantPathError(t, err, "read", "file", context.Canceled)
	if w.calls != 2 {
		t.Errorf("%d blocks were written", w.calls)
	}
	_, err = f.ReadLines(ctx, "file", LineOptions{})
	wantPathError(t, err, "read", "file", context.Canceled)
}

func TestReadLines(t *testing.T) {
	const euro = "€€€\n"
	for _, c := range []struct {
		name, content string
		opts          LineOptions
		want          Lines
	}{
		{"empty", "", LineOptions{}, Lines{First: 1}},
		{"all", "a\nb\n", LineOptions{}, Lines{Text: []byte("a\nb\n"), First: 1, Count: 2, Total: 2}},
		{"unterminated", "a\nb", LineOptions{}, Lines{Text: []byte("a\nb"), First: 1, Count: 2, Total: 2}},
		{"window", "a\nb\nc\nd\n", LineOptions{First: 2, Max: 2}, Lines{Text: []byte("b\nc\n"), First: 2, Count: 2, Total: 4}},
		{"last unterminated", "a\nb\nc", LineOptions{First: 3, Max: 1}, Lines{Text: []byte("c"), First: 3, Count: 1, Total: 3}},
		{"beyond the end", "a\nb\n", LineOptions{First: 3}, Lines{First: 3, Total: 2}},
		{"carriage returns", "a\r\nb\r\n", LineOptions{First: 2}, Lines{Text: []byte("b\r\n"), First: 2, Count: 1, Total: 2}},
		{"exact budget", "aa\nbb\n", LineOptions{MaxBytes: 6}, Lines{Text: []byte("aa\nbb\n"), First: 1, Count: 2, Total: 2}},
		{"budget at a line end", "aa\nbb\n", LineOptions{MaxBytes: 3}, Lines{Text: []byte("aa\n"), First: 1, Count: 1, Total: 2, Truncated: true}},
		{"budget within a line", "aa\nbb\ncc\n", LineOptions{MaxBytes: 5}, Lines{Text: []byte("aa\n"), First: 1, Count: 1, Total: 3, Truncated: true}},
		{"budget and maximum", "aa\nbb\n", LineOptions{Max: 1, MaxBytes: 3}, Lines{Text: []byte("aa\n"), First: 1, Count: 1, Total: 2}},
		{"long first line", "abcdef\ng\n", LineOptions{MaxBytes: 4}, Lines{Text: []byte("abcd"), First: 1, Count: 1, Total: 2, Truncated: true, CutLine: true}},
		{"only the line feed cut", "abcd\n", LineOptions{MaxBytes: 4}, Lines{Text: []byte("abcd"), First: 1, Count: 1, Total: 1, Truncated: true, CutLine: true}},
		{"cut between runes", euro, LineOptions{MaxBytes: 6}, Lines{Text: []byte("€€"), First: 1, Count: 1, Total: 1, Truncated: true, CutLine: true}},
		{"cut after 1 of 3", euro, LineOptions{MaxBytes: 4}, Lines{Text: []byte("€"), First: 1, Count: 1, Total: 1, Truncated: true, CutLine: true}},
		{"cut after 2 of 3", euro, LineOptions{MaxBytes: 5}, Lines{Text: []byte("€"), First: 1, Count: 1, Total: 1, Truncated: true, CutLine: true}},
		{"cut in a 4-byte rune", "a😀😀", LineOptions{MaxBytes: 8}, Lines{Text: []byte("a😀"), First: 1, Count: 1, Total: 1, Truncated: true, CutLine: true}},
		{"cut of invalid UTF-8", "\xff\xff\xff\xff\n", LineOptions{MaxBytes: 3}, Lines{Text: []byte("\xff\xff\xff"), First: 1, Count: 1, Total: 1, Truncated: true, CutLine: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newTestFS(t)
			put(t, f, "file", c.content)
			got, err := f.ReadLines(t.Context(), "file", c.opts)
			must(t, err)
			if got.Attr.Size != int64(len(c.content)) {
				t.Errorf("the size is %d", got.Attr.Size)
			}
			if diff := cmp.Diff(c.want, got, cmpopts.IgnoreFields(Lines{}, "Attr"), cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReadLinesHoldsOnlyTheWindow(t *testing.T) {
	f := newTestFS(t)
	file, err := os.Create(at(f, "sparse"))
	must(t, err)
	defer file.Close()
	const size = 256 << 20
	must(t, file.Truncate(size))
	allocated := allocatedBy(func() {
		got, err := f.ReadLines(t.Context(), "sparse", LineOptions{MaxBytes: 1000})
		must(t, err)
		if len(got.Text) != 1000 || !got.CutLine || got.Total != -1 {
			t.Errorf("got %d bytes, cut %v, of %d lines", len(got.Text), got.CutLine, got.Total)
		}
	})
	if allocated > 4<<20 {
		t.Errorf("reading a line of %d bytes allocated %d", size, allocated)
	}
}

func TestReadLinesCountsOnlyABitBeyondTheWindow(t *testing.T) {
	f := newTestFS(t)
	put(t, f, "file", "a\nb\n")
	for size, want := range map[int64]int64{maxLineCounting: 3, maxLineCounting + 2*blockSize: -1} {
		must(t, os.Truncate(at(f, "file"), size))
		got, err := f.ReadLines(t.Context(), "file", LineOptions{First: 2, Max: 1})
		must(t, err)
		if string(got.Text) != "b\n" || got.Total != want || got.Truncated {
			t.Errorf("a file of %d bytes: %q of %d lines, truncated %v; want %d", size, got.Text, got.Total, got.Truncated, want)
		}
	}
	// The lines before the window are not counted as cut.
	long, err := f.ReadLines(t.Context(), "file", LineOptions{First: 3})
	must(t, err)
	if long.First != 3 || !long.CutLine {
		t.Errorf("third line: first %d, cut %v", long.First, long.CutLine)
	}
}

func FuzzReadLines(f *testing.F) {
	f.Add([]byte("a\nb\r\n\nc€€"), uint8(1), uint8(2), uint8(7), uint8(3))
	f.Add([]byte("\xe2\x82\n\xf0\x9f"), uint8(1), uint8(0), uint8(1), uint8(1))
	f.Fuzz(func(t *testing.T, content []byte, first, most, budget, block uint8) {
		opts := LineOptions{First: int64(first), Max: int64(most), MaxBytes: int64(budget) + 1}
		w := newLineWindow(opts)
		for rest := content; len(rest) > 0; {
			n := min(len(rest), int(block)+1)
			w.add(rest[:n])
			rest = rest[n:]
		}
		if diff := cmp.Diff(linesOracle(content, opts), w.finish(), cmpopts.EquateEmpty()); diff != "" {
			t.Error(diff)
		}
	})
}

// linesOracle returns what ReadLines must return, with the whole file in memory.
func linesOracle(content []byte, opts LineOptions) Lines {
	all := bytes.SplitAfter(content, []byte("\n"))
	if last := len(all) - 1; len(all[last]) == 0 {
		all = all[:last]
	}
	first := max(opts.First, 1)
	want := Lines{First: first, Total: int64(len(all))}
	for i := first - 1; i < want.Total && (opts.Max == 0 || want.Count < opts.Max); i++ {
		if int64(len(want.Text)+len(all[i])) <= opts.MaxBytes {
			want.Text = append(want.Text, all[i]...)
			want.Count++
			continue
		}
		want.Truncated = true
		if want.Count == 0 {
			want.Count, want.CutLine = 1, true
			want.Text = cutOracle(all[i], int(opts.MaxBytes))
		}
		break
	}
	return want
}

// cutOracle returns the first n bytes of line, without an incomplete UTF-8 sequence
// at the end.
func cutOracle(line []byte, n int) []byte {
	for back := 1; back <= 3 && back <= n; back++ {
		lead := line[n-back]
		length := 1
		switch {
		case lead >= 0xf0 && lead < 0xf5:
			length = 4
		case lead >= 0xe0 && lead < 0xf0:
			length = 3
		case lead >= 0xc2 && lead < 0xe0:
			length = 2
		}
		if length > back && couldBeRune(line[n-back:n]) {
			return line[:n-back]
		}
	}
	return line[:n]
}

// couldBeRune reports whether some continuation makes p a rune.
func couldBeRune(p []byte) bool {
	for _, tail := range []string{"\x80", "\x80\x80", "\x80\x80\x80", "\xa0", "\xa0\x80", "\x90\x80", "\x90\x80\x80", "\x80\xbf"} {
		if r := []rune(string(p) + tail); len(r) == 1 && r[0] != '\uFFFD' {
			return true
		}
	}
	return false
}
