package fsops

import (
	"errors"
	"fmt"
	"strings"
)

// A SkippedError says what a loop over results had to skip, such as directories
// that could not be read. It is the last value of the loop: all other results came
// before it. Who is content with those asks for it with [errors.AsType].
type SkippedError struct {
	// Errs are the first [MaxSkipped] reasons, each an *fs.PathError. Binary files
	// ([ErrBinary]) make room for others, so that there are only binary files among
	// the rest if there are only such here.
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

// replaceBinary puts err in the place of a binary file, if there is one.
func (e *SkippedError) replaceBinary(err error) {
	for i, other := range e.Errs {
		if errors.Is(other, ErrBinary) {
			e.Errs[i] = err
			return
		}
	}
}

// add adds what another one has.
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
	if e.Total() == 1 {
		return e.Errs[0].Error()
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%d files or directories were skipped: ", e.Total())
	shown := e.Errs[:min(len(e.Errs), shownSkipped)]
	for i, err := range shown {
		if i > 0 {
			text.WriteString("; ")
		}
		text.WriteString(err.Error())
	}
	if more := e.Total() - int64(len(shown)); more > 0 {
		fmt.Fprintf(&text, "; and %d more", more)
	}
	return text.String()
}

// Unwrap returns the reasons, so that errors.Is and errors.As find them.
func (e *SkippedError) Unwrap() []error { return e.Errs }
