package fsops

import (
	"errors"
	"fmt"
	"strings"
)

// ErrSkipped is the class of every [SkippedError], for errors.Is.
var ErrSkipped = errors.New("files or directories were skipped")

// A SkippedError says what a loop over results had to skip, such as directories
// that could not be read. It is the last value of the loop: all results came before
// it. Callers that accept partial results test for it by [ErrSkipped].
type SkippedError struct {
	// Errs are the first [MaxSkipped] reasons, each an *fs.PathError. Other reasons
	// displace binary files ([ErrBinary]). So if Errs has only binary files, all that
	// More counts are binary, too.
	Errs []error
	// More is how many further files and directories were skipped.
	More int64
}

// Add adds the reason why something was skipped, or counts it if there are
// MaxSkipped.
func (e *SkippedError) Add(err error) {
	switch {
	case len(e.Errs) < MaxSkipped:
		e.Errs = append(e.Errs, err)
		return
	case !errors.Is(err, ErrBinary):
		e.replaceBinary(err)
	}
	e.More++
}

// replaceBinary replaces the error of a binary file by err, if there is one.
func (e *SkippedError) replaceBinary(err error) {
	for i, other := range e.Errs {
		if errors.Is(other, ErrBinary) {
			e.Errs[i] = err
			return
		}
	}
}

// add adds the reasons and the number of another one.
func (e *SkippedError) add(other *SkippedError) {
	for _, err := range other.Errs {
		e.Add(err)
	}
	e.More += other.More
}

// asError returns e, or nil if nothing was skipped.
func (e *SkippedError) asError() error {
	if len(e.Errs) == 0 {
		return nil
	}
	return e
}

// Total returns how many files and directories were skipped.
func (e *SkippedError) Total() int64 { return int64(len(e.Errs)) + e.More }

func (e *SkippedError) Error() string {
	if len(e.Errs) == 1 && e.More == 0 {
		return e.Errs[0].Error()
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%d files or directories were skipped", e.Total())
	shown := e.Errs[:min(len(e.Errs), shownSkipped)]
	if len(shown) == 0 { // an agent may send no reasons
		return text.String()
	}
	separator := ": "
	for _, err := range shown {
		text.WriteString(separator + err.Error())
		separator = "; "
	}
	if more := e.Total() - int64(len(shown)); more > 0 {
		fmt.Fprintf(&text, "; and %d more", more)
	}
	return text.String()
}

// Is makes every SkippedError an [ErrSkipped].
func (e *SkippedError) Is(target error) bool { return target == ErrSkipped }

// Unwrap returns the reasons, so that errors.Is and errors.As find them.
func (e *SkippedError) Unwrap() []error { return e.Errs }
