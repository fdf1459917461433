package ignore

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// filesOfRipgrep returns the files that "rg --files" lists below dir.
func filesOfRipgrep(t *testing.T, dir string) []string {
	t.Helper()
	cmd := exec.Command("rg", "--no-config", "--files", "--hidden", "--null", "--no-require-git", "--glob", "!.git")
	cmd.Dir = dir
	out, err := cmd.Output()
	if exit, ok := err.(*exec.ExitError); ok && exit.ExitCode() == 1 {
		err = nil // there are no files
	}
	if err != nil {
		t.Fatal("this test compares with ripgrep, which failed: ", err)
	}
	files := []string{}
	for file := range bytes.SplitSeq(bytes.TrimSuffix(out, []byte{0}), []byte{0}) {
		if len(file) > 0 {
			files = append(files, string(file))
		}
	}
	slices.Sort(files)
	return files
}

// filesOfOurs returns the same from this package.
func filesOfOurs(t *testing.T, dir string) []string {
	t.Helper()
	top, err := Open(dir, dir)
	if err != nil {
		t.Fatal(err)
	}
	dirs := map[string]*Dir{".": top}
	files := []string{}
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, path)
		if err != nil || rel == "." {
			return err
		}
		parent := dirs[filepath.Dir(rel)]
		switch {
		case e.Name() == ".git" || parent.Ignored(e.Name(), e.IsDir()):
			if e.IsDir() {
				return fs.SkipDir
			}
		case e.IsDir():
			dirs[rel], err = parent.Child(e.Name())
		default:
			files = append(files, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(files)
	return files
}

// TestIgnoreEqualsRipgrep makes rules of all kinds contradict each other. Their
// patterns are plain, because ripgrep and git disagree about others.
func TestIgnoreEqualsRipgrep(t *testing.T) {
	home := withoutUser(t)
	rnd := rand.New(rand.NewPCG(5, 6))
	patterns := []string{"a", "b", "*.o", "c.o", "d/", "/a", "/d/a", "d/b", "*", "d/*", "**/b", "/e", "e/"}
	rules := func(path string) {
		os.Remove(path)
		if rnd.IntN(2) == 0 {
			return
		}
		var text strings.Builder
		for range 1 + rnd.IntN(3) {
			fmt.Fprintln(&text, []string{"", "!"}[rnd.IntN(2)]+patterns[rnd.IntN(len(patterns))])
		}
		write(t, path, text.String())
	}
	dir := t.TempDir()
	for _, file := range []string{"a", "b", "c.o", "d/a", "d/b", "d/c.o", "d/d/a", "d/d/e", "e/a", "e/c.o", ".git/HEAD"} {
		write(t, filepath.Join(dir, file), "")
	}
	for i := range 300 {
		for _, sub := range []string{"", "d", "d/d", "e"} {
			for _, name := range []string{".gitignore", ".ignore", ".rgignore"} {
				rules(filepath.Join(dir, sub, name))
			}
		}
		rules(dir + "/.git/info/exclude")
		rules(home + "/.config/git/ignore")
		if diff := cmp.Diff(filesOfRipgrep(t, dir), filesOfOurs(t, dir)); diff != "" {
			out, _ := exec.Command("sh", "-c", "cd "+dir+" && grep -rn '' . "+home).CombinedOutput()
			t.Fatalf("round %d: ripgrep (-) and we (+) disagree:\n%s\nthe rules are\n%s", i, diff, out)
		}
	}
}

// Unlike git's, the rules in ripgrep's own files also apply outside of a
// repository.
func TestIgnoreFilesHoldFromAnyParentOn(t *testing.T) {
	withoutUser(t)
	top := t.TempDir()
	write(t, top+"/.ignore", "a\n/repo/sub/anchored\n")
	write(t, top+"/.rgignore", "!b\n")
	write(t, top+"/.gitignore", "c\n")
	write(t, top+"/repo/.git/HEAD", "")
	write(t, top+"/repo/sub/.ignore", "b\n")
	write(t, top+"/repo/sub/.gitignore", "!a\nd\n")
	d, err := Open(top+"/repo/sub", top)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]Decision{"a": Ignore, "anchored": Ignore, "b": Keep, "c": Undecided, "d": Ignore} {
		if got := d.Decide(name, false); got != want {
			t.Errorf("%s: decision %v, want %v", name, got, want)
		}
	}
}

func TestEnterReadsOnlyTheFilesThatThereAre(t *testing.T) {
	withoutUser(t)
	top := t.TempDir()
	write(t, top+"/sub/.gitignore", "a\n")
	write(t, top+"/sub/.ignore", "b\n")
	d, err := Open(top, top)
	if err != nil {
		t.Fatal(err)
	}
	for files, want := range map[Files][2]bool{0: {}, hasGitignore: {true, false}, hasIgnore: {false, true}, AllFiles: {true, true}} {
		sub, err := d.Enter("sub", "", files)
		if err != nil {
			t.Fatal(err)
		}
		if got := [2]bool{sub.Ignored("a", false), sub.Ignored("b", false)}; got != want {
			t.Errorf("files %b: ignored %v, want %v", files, got, want)
		}
	}
	if FileOf(".git")|FileOf(".gitignore")|FileOf(".ignore")|FileOf(".rgignore") != AllFiles || FileOf("git")|FileOf("")|FileOf(".i") != 0 {
		t.Error("FileOf does not know the files")
	}
}
