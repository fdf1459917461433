//go:build !linux && !darwin

package ledger

import (
	"context"
	"errors"
)

// lock takes no lock on this platform.
func lock(context.Context, string) (unlock func(), err error) {
	return nil, errors.ErrUnsupported
}
