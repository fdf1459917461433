// Package delay waits, unless a context ends.
package delay

import (
	"context"
	"time"
)

// For waits for d, or until ctx ends: then it returns the cause of that.
func For(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
