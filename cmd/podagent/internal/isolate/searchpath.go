package isolate

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podagent/podagent/cmd/podagent/internal/landlock"
)

// FollowPath returns a PATH without symbolic links from outside of the view into it: NixOS has all its
// programs behind one.
func (v View) FollowPath(path string) string {
	list := filepath.SplitList(path)
	for i, dir := range list {
		if !filepath.IsAbs(dir) || v.has(dir) {
			continue
		}
		if real, err := filepath.EvalSymlinks(dir); err == nil && v.has(real) {
			list[i] = real
		}
	}
	return strings.Join(list, string(filepath.ListSeparator))
}

// has reports whether a path is below one of the view's.
func (v View) has(path string) bool {
	return slices.ContainsFunc(v.entries(), func(e landlock.File) bool { return isOrBelow(path, e.Path) })
}

func isOrBelow(path, dir string) bool {
	return strings.HasPrefix(filepath.Clean(path)+"/", filepath.Clean(dir)+"/")
}

// Path returns the part of a PATH that an isolated program can read. Within rules of Landlock, the others
// would still seem to have programs in them: the kernel shows whether a file can be executed by its mode. A
// program that finds itself there, or an interpreter that is before one of the system, then fails.
func (v View) Path(path string) string {
	var list []string
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) || v.makes(dir) || readable(dir) {
			list = append(list, dir)
		}
	}
	return strings.Join(list, string(filepath.ListSeparator))
}

// makes reports whether the sandbox can make the directory, so that it need not be there yet.
func (v View) makes(dir string) bool {
	return isOrBelow(dir, v.Workdir) || isOrBelow(dir, v.Home) || isOrBelow(dir, v.Temp)
}

func readable(dir string) bool {
	f, err := os.Open(dir)
	if err != nil {
		return false
	}
	f.Close()
	return true
}
