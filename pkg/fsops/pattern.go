package fsops

import (
	"errors"

	"github.com/podagent/podagent/pkg/fsops/internal/globs"
)

// checkGlob returns a [*PatternError] for a glob that is not valid.
func checkGlob(pattern string) error { return globError(globs.Check(pattern)) }

// newGlobSet returns the set of the globs, or a [*PatternError].
func newGlobSet(list []string) (globs.Set, error) {
	set, err := globs.NewSet(list)
	return set, globError(err)
}

// globError turns an error of package globs into the one of this package.
func globError(err error) error {
	var fault *globs.SyntaxError
	if errors.As(err, &fault) {
		return (*PatternError)(fault)
	}
	return err
}
