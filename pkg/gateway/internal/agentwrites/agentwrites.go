// Package agentwrites tells what a watch reports of the agent's own way to write files, which clients of
// other products' APIs do not expect. While the agent writes a file, it has no name, by which the kernel
// reports it all the same, or one that it does not keep.
package agentwrites

import (
	"path"
	"regexp"
)

var (
	unnamed = regexp.MustCompile(`^#\d+$`)
	passing = regexp.MustCompile(`^\.tmp-[a-z2-7]{10}$`)
)

// Unnamed reports whether a path is that of a file without a name.
func Unnamed(name string) bool { return unnamed.MatchString(path.Base(name)) }

// Passing reports whether a path is one that a file does not keep.
func Passing(name string) bool { return passing.MatchString(path.Base(name)) }
