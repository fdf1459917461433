package leader

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/podagent/podagent/internal/delay"
	"github.com/podagent/podagent/pkg/launcher/internal/lockfile"
)

// File chooses the process that has the lock of a file. On a machine without such locks all lead.
type File struct {
	Path string       // of the file, whose directory is made if it is missing
	Log  *slog.Logger // gets why nobody can be chosen; nil discards it
}

// Lead waits until this process leads, and then calls do, whose context ends with ctx. It returns
// when do has, or ctx ends.
func (f *File) Lead(ctx context.Context, do func(context.Context)) {
	failed := failures{log: f.Log}
	for ctx.Err() == nil {
		unlock, err := f.lock(ctx)
		switch {
		case err == nil:
			defer unlock()
			do(ctx)
			return
		case errors.Is(err, errors.ErrUnsupported):
			do(ctx)
			return
		case !errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
			failed.say(err)
		}
		delay.For(ctx, retryPeriod)
	}
}

func (f *File) lock(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(f.Path), 0o700); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	return lockfile.Lock(ctx, f.Path)
}
