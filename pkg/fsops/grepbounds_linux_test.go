//go:build !race

package fsops

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// maxGrepPeak is how many bytes of memory the process of a search may take. The
// race detector takes several times that.
const maxGrepPeak = 128 << 20

// boundedDir is the variable that tells a child process of this test binary where
// to search.
const boundedDir = "FSOPS_TEST_BOUNDED_DIR"

// atMost runs the calling test again in its own process, which calls search, and
// checks how much memory that process took at most. prepare makes the files to
// search.
func atMost(t *testing.T, prepare, search func(f *FS)) {
	t.Helper()
	if bounded(t, search) {
		return
	}
	f := New(memoryDir(t))
	prepare(f)
	searchAgain(t, f)
}

// bounded does nothing but report false, except in a process that searchAgain
// started. There it calls search and checks how much memory the process took at
// most.
func bounded(t *testing.T, search func(f *FS)) bool {
	t.Helper()
	dir := os.Getenv(boundedDir)
	if dir == "" {
		return false
	}
	search(New(dir))
	status, err := os.ReadFile("/proc/self/status")
	must(t, err)
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kilobytes, err := strconv.Atoi(strings.Fields(rest)[0])
	must(t, err)
	if t.Logf("%d MiB", kilobytes>>10); kilobytes<<10 > maxGrepPeak {
		t.Errorf("the search took %d MiB, want at most %d", kilobytes>>10, maxGrepPeak>>20)
	}
	return true
}

// searchAgain runs the calling test or subtest again in its own process.
func searchAgain(t *testing.T, f *FS) {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	only := "^" + strings.ReplaceAll(t.Name(), "/", "$/^") + "$"
	cmd := exec.Command(self, "-test.run="+only, "-test.v")
	cmd.Env = append(os.Environ(), boundedDir+"="+f.Workdir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// memoryDir returns an empty directory, in memory if there is such a file system.
func memoryDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "fsops")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	return dir
}

// finds runs a search to its end. It returns the number of matches, and how many
// files the search skipped or left out.
func finds(t *testing.T, f *FS, pattern string, opts GrepOptions) (matches, others int) {
	t.Helper()
	var stats GrepStats
	opts.Stats = &stats
	results, skipped := collected(t, f.Grep(t.Context(), pattern, opts))
	for _, r := range results {
		if r.Kind == GrepMatch {
			matches++
		}
	}
	return matches, len(skipped) + int(stats.Binary)
}

func TestGrepOfAHugeSparseFileIsBounded(t *testing.T) {
	atMost(t, func(f *FS) {
		put(t, f, "empty", "")
		put(t, f, "lines", strings.Repeat("line\n", blockSize/5+1))
		for _, name := range []string{"empty", "lines"} {
			must(t, os.Truncate(at(f, name), 10<<30))
		}
	}, func(f *FS) {
		for _, opts := range []GrepOptions{{}, {Multiline: true}, {Report: GrepCounts}} {
			if _, others := finds(t, f, "x", opts); others != 2 {
				t.Errorf("%+v: %d files were left out, want 2", opts, others)
			}
		}
	})
}

func TestGrepOfAnEndlessLineIsBounded(t *testing.T) {
	atMost(t, func(f *FS) {
		file, err := os.Create(at(f, "line"))
		must(t, err)
		defer file.Close()
		must(t, writeRepeated(file, "0123456789abcdef", 1<<30))
		linkOften(t, f, "line", "lines", 3000)
	}, func(f *FS) {
		line, lines := []string{"line"}, []string{"lines"}
		for _, pattern := range []string{"absent", `(?i)ABSENT`, `\w{5}\s+\w{5}`, "def0"} {
			if _, others := finds(t, f, pattern, GrepOptions{Spans: true, Paths: line}); others != 1 {
				t.Errorf("%s: %d errors, want one that says that the line is too long", pattern, others)
			}
		}
		cancelled(t, f, "absent", GrepOptions{Paths: lines})
		cancelled(t, f, "[a-f]{1000}$", GrepOptions{Paths: lines})
		if _, others := finds(t, f, "def0", GrepOptions{Multiline: true, Paths: line}); others != 1 {
			t.Errorf("%d errors, want one that says that the file is too large", others)
		}
	})
}

func writeRepeated(w io.Writer, text string, size int) error {
	block := []byte(strings.Repeat(text, 1<<20/len(text)))
	for range size / len(block) {
		if _, err := w.Write(block); err != nil {
			return err
		}
	}
	return nil
}

func TestGrepWithAHugePatternIsBounded(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var words []string
	for size := 0; size < 10<<10; size += 11 {
		words = append(words, fmt.Sprintf("%x", 1<<36+rnd.Int64N(1<<38)))
	}
	atMost(t, fillWithLines, func(f *FS) {
		for _, pattern := range []string{
			strings.Join(words, "|"),
			strings.Join(words, ""),
			"(?i)" + strings.Join(words, "|"),
			"(" + strings.Join(words, `\w+|`) + ")[xyz]+",
		} {
			countsAll(t, f, pattern)
		}
	})
}

// The number of states of these automata is exponential in the size of the pattern.
func TestGrepWithAnExplodingAutomatonIsBounded(t *testing.T) {
	atMost(t, fillWithLines, func(f *FS) {
		for _, pattern := range []string{
			"[ab][a-f0-9]{200}x", "(a|b)*a(a|b|[0-9]){400}$", `(?i)(x+x+)+y`, "(.*a){30}", `[^ ]{1,100}[ab].{100}[cd]`,
		} {
			countsAll(t, f, pattern)
		}
		// This would take hours, because no byte rules out a match.
		const endless = `(?s)(?:.*a[0-9a-f]{100}){9}[^0-9a-f \n]`
		cancelled(t, f, endless, GrepOptions{Multiline: true})
		cancelled(t, f, endless, GrepOptions{Multiline: true, Sort: true})
	})
}

// countsAll runs a search to its end.
func countsAll(t *testing.T, f *FS, pattern string) {
	t.Helper()
	for _, err := range f.Grep(t.Context(), pattern, GrepOptions{Report: GrepCounts}) {
		if err != nil {
			t.Errorf("%.40s: %v", pattern, err)
		}
	}
}

// fillWithLines makes some large files of hexadecimal digits.
func fillWithLines(f *FS) {
	rnd := rand.New(rand.NewPCG(3, 4))
	var text bytes.Buffer
	for text.Len() < 2<<20 {
		fmt.Fprintf(&text, "%x %x\n", rnd.Uint64(), rnd.Uint64())
		for range rnd.IntN(50) {
			fmt.Fprintf(&text, "%x", rnd.Uint64())
		}
	}
	for i := range 8 {
		if err := os.WriteFile(at(f, strconv.Itoa(i)), text.Bytes(), 0o600); err != nil {
			panic(err)
		}
	}
}
