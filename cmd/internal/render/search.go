package render

import (
	"errors"
	"fmt"
	"io"
)

// ErrNothing says that a search found nothing, which is an exit status and no
// message.
var ErrNothing = errors.New("nothing found")

// orNothing returns err, or that nothing was found.
func orNothing(found bool, err error) error {
	if err == nil && !found {
		return ErrNothing
	}
	return err
}

// say says something besides the results, which does not depend on whether it
// can be said.
func say(w io.Writer, text string) {
	fmt.Fprintf(w, "%s\n", IsTerminal(w).Text([]byte(text)))
}
