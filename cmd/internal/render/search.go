package render

import (
	"errors"
	"fmt"
	"io"

	"github.com/podagent/podagent/pkg/fsops"
)

// ExitSearchFailed is the exit status of a search that failed in any way,
// whatever it found. As ripgrep, one that found something exits with 0, and one
// that did not ([ErrNothing]) with 1.
const ExitSearchFailed = 2

// ErrNothing says that a search found nothing, which is an exit status and no
// message.
var ErrNothing = errors.New("nothing found")

// ErrIncomplete says that some files could not be searched. Which, and why, was
// said already.
var ErrIncomplete = errors.New("some files could not be searched")

// A SearchError is why a search failed as a whole.
type SearchError struct{ Err error }

func (e *SearchError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *SearchError) Unwrap() error { return e.Err }

// SearchFailed reports whether err says that a search failed, in whole or in
// part.
func SearchFailed(err error) bool {
	return errors.Is(err, ErrIncomplete) || errors.As(err, new(*SearchError))
}

// ended returns how a search ended that went through.
func ended(found, complete bool) error {
	switch {
	case !complete:
		return ErrIncomplete
	case !found:
		return ErrNothing
	}
	return nil
}

// saySkipped says what a search skipped, and reports whether any of it makes the search
// incomplete: all but binary files does, of which ripgrep does not mind either.
func saySkipped(w io.Writer, skipped *fsops.SkippedError) (incomplete bool) {
	for _, err := range skipped.Errs {
		say(w, err.Error())
		incomplete = incomplete || !errors.Is(err, fsops.ErrBinary)
	}
	if skipped.More > 0 {
		say(w, fmt.Sprintf("and %d more were skipped", skipped.More))
		incomplete = incomplete || len(skipped.Errs) == 0
	}
	return incomplete
}

// say says something besides the results, which does not depend on whether it
// can be said.
func say(w io.Writer, text string) {
	fmt.Fprintf(w, "%s\n", IsTerminal(w).Text([]byte(text)))
}
