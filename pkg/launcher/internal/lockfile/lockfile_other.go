//go:build !linux && !darwin

// Package lockfile makes processes take turns by a lock on a file.
package lockfile

import (
	"context"
	"errors"
)

// Lock takes no lock on this platform.
func Lock(context.Context, string) (unlock func(), err error) { return nil, errors.ErrUnsupported }
