//go:build unix

package fsops

import (
	"bytes"
	"errors"
	"hash/crc32"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// hung is how long a test waits for something that must happen.
const hung = 2 * time.Minute

// full says that the tests use the sizes of a full test.
var full = os.Getenv("PODAGENT_TEST_FULL") != ""

// newTestFS returns an FS whose workdir is a new, empty directory.
func newTestFS(t testing.TB) *FS {
	t.Helper()
	return New(t.TempDir())
}

// at returns the absolute path of name.
func at(f *FS, name string) string { return filepath.Join(f.Workdir(), name) }

func put(t testing.TB, f *FS, name, content string) {
	t.Helper()
	must(t, os.WriteFile(at(f, name), []byte(content), 0o644))
}

// makeTree makes files, each with its own name as content: "a/b" is a file, "a/b/"
// a directory, and "a -> b" a symbolic link.
func makeTree(t testing.TB, f *FS, files ...string) {
	t.Helper()
	for _, file := range files {
		name, target, isLink := strings.Cut(file, " -> ")
		path := at(f, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o777))
		switch {
		case isLink:
			must(t, os.Symlink(target, path))
		case strings.HasSuffix(name, "/"):
			must(t, os.MkdirAll(path, 0o777))
		default:
			must(t, os.WriteFile(path, []byte(name+"\n"), 0o666))
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantContent(t testing.TB, f *FS, name, want string) {
	t.Helper()
	got, err := os.ReadFile(at(f, name))
	must(t, err)
	if string(got) != want {
		t.Errorf("%q holds %.200q, want %.200q", name, got, want)
	}
}

// wantNames checks that the directory has exactly these names, so nothing temporary
// is left.
func wantNames(t testing.TB, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s holds %q, want %q", dir, got, want)
	}
}

// onlyError returns the error of a search that has no results.
func onlyError[T any](t testing.TB, results iter.Seq2[T, error]) error {
	t.Helper()
	var errs []error
	for _, err := range results {
		errs = append(errs, err)
	}
	if len(errs) != 1 || errs[0] == nil {
		t.Fatalf("results with the errors %v, want one error alone", errs)
	}
	return errs[0]
}

// collected returns the results of a search and the errors of what it skipped,
// sorted by text. It checks that the error comes last and is complete.
func collected[T any](t testing.TB, results iter.Seq2[T, error]) (all []T, skipped []error) {
	t.Helper()
	for r, err := range results {
		if skipped != nil {
			t.Fatalf("a value comes after the error: %+v, %v", r, err)
		}
		if err == nil {
			all = append(all, r)
			continue
		}
		e, ok := errors.AsType[*SkippedError](err)
		if !ok || e.More > 0 || len(e.Errs) == 0 {
			t.Fatal(err)
		}
		skipped = slices.SortedFunc(slices.Values(e.Errs), func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	}
	return all, skipped
}

// namesOf returns a line for each error: binary or error, and the path.
func namesOf(skipped []error) (lines []string) {
	for _, err := range skipped {
		kind, path := "error ", ""
		if errors.Is(err, ErrBinary) {
			kind = "binary "
		}
		if of, ok := errors.AsType[*fs.PathError](err); ok {
			path = of.Path
		}
		lines = append(lines, kind+path)
	}
	return lines
}

// wantPathError checks the class of the error, and that it names the operation and
// the path as the caller gave it.
func wantPathError(t testing.TB, err error, op, path string, class error) {
	t.Helper()
	var pe *fs.PathError
	if !errors.As(err, &pe) || !errors.Is(err, class) {
		t.Fatalf("error is %v (%T), want a *fs.PathError of class %v", err, err, class)
	}
	if pe.Op != op || pe.Path != path {
		t.Errorf("error is about %s %q, want %s %q", pe.Op, pe.Path, op, path)
	}
}

func wantLinkError(t testing.TB, err error, op, oldName, newName string, class error) {
	t.Helper()
	var le *os.LinkError
	if !errors.As(err, &le) || !errors.Is(err, class) {
		t.Fatalf("error is %v (%T), want an *os.LinkError of class %v", err, err, class)
	}
	if le.Op != op || le.Old != oldName || le.New != newName {
		t.Errorf("error is about %s %q %q, want %s %q %q", le.Op, le.Old, le.New, op, oldName, newName)
	}
}

func sumOf(content string) Sum {
	return Sum{Size: int64(len(content)), CRC32C: crc32.Checksum([]byte(content), castagnoli())}
}

// write writes content as a caller would.
func write(t testing.TB, f *FS, name, content string, opts WriteOptions) (WriteResult, error) {
	t.Helper()
	w, err := f.Create(name, opts)
	if err != nil {
		return WriteResult{}, err
	}
	defer w.Close()
	if _, err := w.Write([]byte(content)); err != nil {
		return WriteResult{}, err
	}
	return w.Commit(t.Context(), sumOf(content))
}

func mustWrite(t testing.TB, f *FS, name, content string, opts WriteOptions) WriteResult {
	t.Helper()
	res, err := write(t, f, name, content, opts)
	must(t, err)
	return res
}

func mustRead(t testing.TB, f *FS, name string, opts ReadOptions) string {
	t.Helper()
	var buf bytes.Buffer
	res, err := f.Read(t.Context(), name, &buf, opts)
	must(t, err)
	if res.Sum != sumOf(buf.String()) {
		t.Errorf("the sum of %q is %v, want %v", name, res.Sum, sumOf(buf.String()))
	}
	return buf.String()
}

// allocatedBy returns how many bytes were allocated while do ran.
func allocatedBy(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
