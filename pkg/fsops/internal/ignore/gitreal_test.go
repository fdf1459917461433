package ignore

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// maxRealTrees limits the number of trees, maxRealPaths the paths of each. With
// both, the test takes seconds.
const maxRealTrees, maxRealPaths = 60, 20_000

// TestIgnoreEqualsGitCheckIgnoreOnRealTrees uses rules that people wrote, from the
// modules that this one depends on.
func TestIgnoreEqualsGitCheckIgnoreOnRealTrees(t *testing.T) {
	modules, err := exec.Command("go", "list", "-m", "-f", "{{if not .Main}}{{.Dir}}{{end}}", "all").Output()
	if err != nil {
		t.Fatal("cannot list the modules: ", err)
	}
	withoutUser(t)
	elsewhere := &repo{t: t, dir: t.TempDir()}
	elsewhere.git("init", "-q")
	trees := 0
	for dir := range strings.Lines(string(modules)) {
		dir = strings.TrimSpace(dir)
		if _, err := os.Stat(filepath.Join(dir, FileName)); dir == "" || err != nil || trees == maxRealTrees {
			continue
		}
		trees++
		r := &repo{t: t, dir: dir, args: []string{"--git-dir=" + elsewhere.dir + "/.git", "--work-tree=" + dir}}
		r.addRealPaths()
		r.compare(dir)
	}
	if trees < 5 {
		t.Errorf("only %d modules have a .gitignore file", trees)
	}
}

// addRealPaths lists the tree's files, and adds files that its rules may match:
// ignored files are seldom published.
func (r *repo) addRealPaths() {
	err := filepath.WalkDir(r.dir, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(r.dir, path)
		if err != nil || rel == "." || len(r.paths) >= maxRealPaths {
			return err
		}
		r.paths = append(r.paths, rel)
		if d.Name() == FileName {
			return r.addRulesOf(path, filepath.Dir(rel))
		}
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// addRulesOf adds paths that resemble the rules of a file.
func (r *repo) addRulesOf(path, dir string) error {
	text, err := os.ReadFile(path)
	clean := strings.NewReplacer("*", "x", "?", "y", "[", "", "]", "", "!", "", "\\", "")
	for line := range bytes.Lines(text) {
		name := strings.Trim(clean.Replace(strings.TrimSpace(string(line))), "/")
		if name == "" || name[0] == '#' || filepath.Clean(name) != name || strings.HasPrefix(name, "..") {
			continue
		}
		for _, form := range []string{"%s", "%s/below", "made-up/%s", "made-up/%s/deep/er.go", "%s.go"} {
			r.paths = append(r.paths, filepath.Join(dir, fmt.Sprintf(form, name)))
		}
	}
	return err
}
