//go:build !race

package fsops

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// maxRulesPeak is how much memory the rules of a search may take in addition to what the
// process had before.
const maxRulesPeak = 64 << 20

// peak returns by how much the memory of this process grew at most while it called do.
func peak(t *testing.T, do func()) int {
	t.Helper()
	memory := func(line string) int {
		status, err := os.ReadFile("/proc/self/status")
		must(t, err)
		_, rest, _ := strings.Cut(string(status), line)
		kilobytes, err := strconv.Atoi(strings.Fields(rest)[0])
		must(t, err)
		return kilobytes << 10
	}
	debug.FreeOSMemory()
	must(t, os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)) // begins the maximum anew
	before := memory("VmRSS:")
	do()
	return memory("VmHWM:") - before
}

// hostileRules returns texts that are to take much memory. They are no variable of the
// package, since that would count in every test of a process's memory.
func hostileRules() map[string]string {
	return map[string]string{
		// Too large each.
		"16 MiB": strings.Repeat("ab*c?\n", 16<<20/6),
		// Too many with wildcards each.
		"many":      strings.Repeat("ab*c?\n", 45_000),
		"wildcards": strings.Repeat(strings.Repeat("?", 20)+"\n", 49_000),
		"classes":   strings.Repeat("[a][b][c][d][e][f]\n", 50_000),
		"one line":  strings.Repeat("?", 1<<20-1) + "\n",
		"middles":   strings.Repeat("*aaaaaaaab*\n", 49_900),
		// One of five has room.
		"names":        numbered("name-with-%08d\n", 49_000),
		"some middles": strings.Repeat("*aaaaaaaab*\n", 1900),
		"some classes": strings.Repeat("*[ab]?[ab]?[ab]?[ab]?[ab]?[ab]c*\n", 1900),
	}
}

// hasRoom are the hostile texts of which a walk has room for one.
var hasRoom = []string{"names", "some middles", "some classes"}

func numbered(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// ruleFiles are where [ruledTree] has rules.
var ruleFiles = []string{".git/info/exclude", ".gitignore", "a/.gitignore", "a/b/.gitignore", "a/b/c/.gitignore"}

// ruledTree makes a repository of these files, with the same rules on all its levels.
func ruledTree(t testing.TB, rules string, files ...string) *FS {
	t.Helper()
	f := New(memoryDir(t))
	makeTree(t, f, ".git/info/x", "a/b/c/")
	makeTree(t, f, files...)
	for _, name := range ruleFiles {
		put(t, f, name, rules)
	}
	return f
}

func TestHostileIgnoreFilesAreSkippedAndSaid(t *testing.T) {
	for name, rules := range hostileRules() {
		t.Run(name, func(t *testing.T) {
			f := ruledTree(t, rules, "a/b/c/file", "a/b/c/d/e/file")
			for what, search := range map[string]func() (int, []error){
				"grep":        func() (int, []error) { return counted(t, f.Grep(t.Context(), "file", GrepOptions{})) },
				"sorted grep": func() (int, []error) { return counted(t, f.Grep(t.Context(), "file", GrepOptions{Sort: true})) },
				"glob":        func() (int, []error) { return counted(t, f.Glob(t.Context(), "**/file", GlobOptions{Ignore: true})) },
				"glob below": func() (int, []error) {
					return counted(t, f.Glob(t.Context(), "a/b/**/file", GlobOptions{Ignore: true, Sort: GlobByName}))
				},
			} {
				var found int
				var skipped []error
				grew := peak(t, func() { found, skipped = search() })
				if found != 2 {
					t.Errorf("%s: found %d files, want 2", what, found)
				}
				wantOverBudget(t, what, skipped, len(ruleFiles), !slices.Contains(hasRoom, name))
				if t.Logf("%s: %d MiB more", what, grew>>20); grew > maxRulesPeak {
					t.Errorf("%s: the search took %d MiB", what, grew>>20)
				}
			}
			grew := peak(t, func() {
				_, err := f.Archive(t.Context(), ".", io.Discard, ArchiveOptions{Ignore: true})
				if !errors.Is(err, syscall.EFBIG) {
					t.Errorf("archive: error is %v, want EFBIG", err)
				}
			})
			if grew > maxRulesPeak {
				t.Errorf("archive: took %d MiB", grew>>20)
			}
		})
	}
}

// BenchmarkHostileIgnoreFiles searches a repository of five thousand files by usual rules,
// and the same one by hostile ones, in turns. It reports the medians and their ratio.
func BenchmarkHostileIgnoreFiles(b *testing.B) {
	var files []string
	for i := range 5000 {
		files = append(files, fmt.Sprintf("a/b/c/d%02d/file%d", i/50, i))
	}
	usual := ruledTree(b, "*.o\n/build/\n.DS_Store\n[Tt]mp*\n!keep\n", files...)
	for name, rules := range hostileRules() {
		hostile := ruledTree(b, rules, files...)
		for what, search := range map[string]func(*FS){
			"grep": func(f *FS) { drain(f.Grep(b.Context(), "file", GrepOptions{})) },
			"glob": func(f *FS) { drain(f.Glob(b.Context(), "**/file*", GlobOptions{Ignore: true})) },
		} {
			b.Run(name+"/"+what, func(b *testing.B) {
				var took [2][]time.Duration
				for b.Loop() {
					for i, f := range []*FS{usual, hostile} {
						begun := time.Now()
						search(f)
						took[i] = append(took[i], time.Since(begun))
					}
				}
				for _, d := range took {
					slices.Sort(d)
				}
				ordinary, other := took[0][len(took[0])/2], took[1][len(took[1])/2]
				b.ReportMetric(float64(ordinary)/1e6, "usual-ms")
				b.ReportMetric(float64(other)/1e6, "hostile-ms")
				b.ReportMetric(float64(other)/float64(ordinary), "hostile/usual")
			})
		}
	}
}

// drain runs a search to its end.
func drain[T any](results iter.Seq2[T, error]) {
	for range results {
	}
}

// wantOverBudget checks that all files of rules were skipped, or all but one.
func wantOverBudget(t *testing.T, what string, skipped []error, files int, all bool) {
	t.Helper()
	var paths []string
	for _, err := range skipped {
		of, ok := err.(*fs.PathError)
		if !ok || !errors.Is(err, syscall.EFBIG) || path.Base(of.Path) != ".gitignore" && path.Base(of.Path) != "exclude" {
			t.Fatalf("%s: skipped for %v", what, err)
		}
		paths = append(paths, of.Path)
	}
	slices.Sort(paths)
	if unique := len(slices.Compact(paths)); unique != len(skipped) || unique < files-1 || all && unique != files {
		t.Errorf("%s: skipped %q", what, paths)
	}
}

// counted returns how many results a search has, and what it skipped.
func counted[T any](t *testing.T, results func(func(T, error) bool)) (n int, skipped []error) {
	t.Helper()
	for _, err := range results {
		if e, ok := errors.AsType[*SkippedError](err); ok {
			skipped = e.Errs
			continue
		}
		must(t, err)
		n++
	}
	return n, skipped
}

// A walk may meet any number of usual ignore files: what is behind it takes no room.
func TestIgnoreFilesOfManyRepositoriesHaveRoom(t *testing.T) {
	f := New(memoryDir(t))
	rules := numbered("name%04d\n", 400) + "ignored\n"
	for i := range 1000 {
		repository := fmt.Sprintf("r%03d", i)
		makeTree(t, f, repository+"/.git/HEAD", repository+"/sub/file", repository+"/sub/ignored")
		put(t, f, repository+"/.gitignore", rules)
	}
	for what, search := range map[string]func() (int, []error){
		"grep":        func() (int, []error) { return counted(t, f.Grep(t.Context(), "file|ignored", GrepOptions{})) },
		"sorted grep": func() (int, []error) { return counted(t, f.Grep(t.Context(), "file|ignored", GrepOptions{Sort: true})) },
		"glob": func() (int, []error) {
			return counted(t, f.Glob(t.Context(), "**/{file,ignored}", GlobOptions{Ignore: true, Sort: GlobByName}))
		},
	} {
		if found, skipped := search(); found != 1000 || len(skipped) > 0 {
			t.Errorf("%s: found %d files, want 1000; skipped %v", what, found, skipped)
		}
	}
	if stats, err := f.Archive(t.Context(), ".", io.Discard, ArchiveOptions{Ignore: true}); err != nil || stats.Bytes == 0 {
		t.Errorf("archive: %+v, %v", stats, err)
	}
}
