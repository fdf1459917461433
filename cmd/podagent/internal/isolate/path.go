package isolate

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

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
	dir = filepath.Clean(dir) + "/"
	return slices.ContainsFunc([]string{v.Workdir, v.Home, v.Temp}, func(own string) bool {
		return strings.HasPrefix(dir, filepath.Clean(own)+"/")
	})
}

func readable(dir string) bool {
	f, err := os.Open(dir)
	if err != nil {
		return false
	}
	f.Close()
	return true
}
