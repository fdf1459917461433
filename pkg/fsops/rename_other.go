//go:build !linux

package fsops

// renameNoReplace renames, and fails with EEXIST where newPath exists.
func renameNoReplace(oldPath, newPath string) error {
	return renameByClaim(oldPath, newPath)
}
