package render

import (
	"errors"
	"fmt"
	"io"

	"github.com/podagent/podagent/pkg/fsops"
)

// ExitSearchFailed is the exit status of a search that failed in any way, whatever
// it found. As in ripgrep, a search that found something exits with 0, and one that
// found nothing ([ErrNothing]) with 1.
const ExitSearchFailed = 2

// ErrNothing says that a search found nothing. It is an exit status without a
// message.
var ErrNothing = errors.New("nothing found")

// ErrIncomplete says that some files could not be searched. They have been reported
// already.
var ErrIncomplete = errors.New("some files could not be searched")

// A SearchError says why a search failed as a whole.
type SearchError struct{ Err error }

func (e *SearchError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *SearchError) Unwrap() error { return e.Err }

// SearchFailed reports whether err says that a search failed, in whole or in part.
func SearchFailed(err error) bool {
	return errors.Is(err, ErrIncomplete) || errors.As(err, new(*SearchError))
}

// ended returns the result of a search that ran to its end.
func ended(found, complete bool) error {
	switch {
	case !complete:
		return ErrIncomplete
	case !found:
		return ErrNothing
	}
	return nil
}

// saySkipped reports what a search skipped. The result says whether that makes the
// search incomplete: like ripgrep, it ignores binary files.
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

// say prints a note besides the results. The search goes on if that fails.
func say(w io.Writer, text string) {
	fmt.Fprintf(w, "%s\n", IsTerminal(w).Text([]byte(text)))
}
