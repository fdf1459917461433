package podagent_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// mayNameProcfs lists what the product may name of /proc outside of pkg/procfs, by file,
// and why that is no read of what a process in the sandbox decides on.
var mayNameProcfs = map[string][]string{
	// Paths of open descriptors of this process itself, or of a program that it starts.
	"cmd/podagent/internal/proc/child_linux.go":            {"/proc/self/fd"},
	"cmd/podagent/internal/proc/command_linux.go":          {". /proc/self/fd/3"},
	"pkg/fsops/writeunnamed_linux.go":                      {"/proc/self/fd", "/proc/self/fd/%d"},
	"pkg/fsops/internal/walk/dir_linux.go":                 {"/proc/self/fd/"},
	"pkg/fsops/checkpoint/pin_linux.go":                    {"/proc/self/fd/"},
	"pkg/launcher/internal/limitgroup/limitgroup_linux.go": {"/proc/self/cgroup"}, // about this process itself
	"pkg/launcher/agent_linux.go":                          {"/proc/self/fd/%d/%s"},
	"cmd/podagent/internal/agent/restprogram.go":           {"/proc/self/smaps"}, // about this process itself
	"cmd/podagent/internal/isolate/namespaces_linux.go": {
		"/proc/self/exe",
	},
	// Settings of the machine.
	"internal/userns/userns.go": {
		"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "/proc/sys/kernel/unprivileged_userns_clone", "/proc/sys/user/max_user_namespaces",
	},
	"cmd/podagent/internal/isolate/refusal_linux.go": {"/proc/sys/user/max_"}, // a setting of the machine
	"cmd/podagent/internal/isolate/verify_linux.go":  {"/proc/self/uid_map"},  // about this process itself
	"cmd/podagent/internal/isolate/stage_linux.go":   {"/proc/self/fd/%d"},
	// What the view of a sandbox has, which is not opened here.
	"cmd/podagent/internal/isolate/landlock_linux.go": {"/proc"},
	"cmd/podagent/internal/isolate/mounts_linux.go":   {"/proc/self/fd", "/proc/self/fd/0", "/proc/self/fd/1", "/proc/self/fd/2", "/proc/self/fd/%d"},
	// The agent reads these about itself and the machine when it starts, below a root
	// that tests replace.
	"cmd/podagent/internal/proc/cgroup/cgroup_linux.go": {"proc/self/mountinfo", "proc/self/cgroup"},
	"cmd/podagent/internal/proc/cgroup/memory_linux.go": {"proc/meminfo"},
	// The gateway has the agent read it in the sandbox, up to a bound.
	"pkg/gateway/e2b/processfind.go": {"/proc/%d/environ"},
	// Names in checks of specifications, which open nothing.
	"pkg/launcher/podcheck.go":        {"/proc"},
	"pkg/launcher/localview_linux.go": {"/proc"},
}

// procfsOutside are the packages that are no part of the product, or the one that may read
// /proc.
var procfsOutside = []string{"test", "internal/hunt", "pkg/procfs", "pkg/launcher/launchertest"}

// A process in the sandbox decides how long its files under /proc are. Package procfs
// bounds what is read of them, and so must be the only one that opens them.
func TestOnlyProcfsNamesProc(t *testing.T) {
	unused := map[string]bool{}
	for file, names := range mayNameProcfs {
		for _, name := range names {
			unused[file+" "+name] = true
		}
	}
	for _, file := range productFiles(t) {
		for at, text := range stringsIn(t, file) {
			if !namesProcfs(text) {
				continue
			}
			if delete(unused, file+" "+text); !slices.Contains(mayNameProcfs[file], text) {
				t.Errorf("%s names %q: files of processes are read by pkg/procfs alone", at, text)
			}
		}
	}
	for name := range unused {
		t.Errorf("%s is allowed, and does not occur", name)
	}
}

// namesProcfs reports whether a string has a path in /proc, in front or after a blank.
func namesProcfs(text string) bool {
	for word := range strings.FieldsSeq(text) {
		first, _, below := strings.Cut(strings.TrimPrefix(word, "/"), "/")
		if first == "proc" && (below || strings.HasPrefix(word, "/")) {
			return true
		}
	}
	return false
}

// productFiles returns the Go files of the product, without tests.
func productFiles(t *testing.T) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (slices.Contains(procfsOutside, filepath.ToSlash(path)) || path != "." && strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
			files = append(files, filepath.ToSlash(path))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 100 {
		t.Fatalf("there are only %d files", len(files))
	}
	return files
}

// stringsIn returns the string literals of a file by their positions, without those that
// are no values: the paths of imports and the tags of fields.
func stringsIn(t *testing.T, file string) map[string]string {
	t.Helper()
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.BasicLit:
			if n.Kind != token.STRING {
				return false
			}
			text, err := strconv.Unquote(n.Value)
			if err != nil {
				t.Fatal(err)
			}
			found[set.Position(n.Pos()).String()] = text
		}
		return true
	})
	return found
}
