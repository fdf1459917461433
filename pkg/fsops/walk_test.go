package fsops

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// makeTree makes files, each with its own name as content: "a/b" is a file,
// "a/b/" a directory, and "a -> b" a symbolic link.
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
