// Package ledger keeps small texts by name, which many processes change at once without losing a
// change: what several orchestrators have to agree on, such as who has reserved what.
//
// [Leases] keeps them in a cluster, and [Files] on one machine. In both, a text that is empty is
// not there: nothing is left of it.
package ledger

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"
)

// Limit is how many bytes a text may have. The annotations of an object have up to 256 KiB.
const Limit = 192 << 10

// ErrFull says that a text would have more bytes than [Limit].
var ErrFull = errors.New("the ledger is full")

// Change returns what a text is to be, from what it is; empty is none. It also returns until when
// the text means anything: afterwards it may be removed. It may be called several times, each time
// with what the text is then, and only the last result counts: what it looks up beside the text it
// must look up again each time. An error leaves the text as it is.
type Change = func(ctx context.Context, old []byte) (text []byte, until time.Time, err error)

// nameExp is what names look like: they are parts of names of Leases and files.
var nameExp = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,98}[a-z0-9])?$`)

func check(name string) error {
	if !nameExp.MatchString(name) {
		return fmt.Errorf("a ledger cannot have the name %q: it has up to 100 lowercase letters, digits, dots and hyphens", name)
	}
	return nil
}

// apply calls a change, and checks what it returns.
func apply(ctx context.Context, change Change, old []byte) ([]byte, time.Time, error) {
	text, until, err := change(ctx, old)
	if err == nil && len(text) > Limit {
		err = fmt.Errorf("%w: it would have %d bytes, and may have %d", ErrFull, len(text), Limit)
	}
	return text, until, err
}
