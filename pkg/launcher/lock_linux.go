package launcher

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher/internal/lockfile"
)

// lock takes the lock of a sandbox, which all processes of the user share, and
// returns its place. The lock is a file beside the sandbox's directory.
func (l *Local) lock(ctx context.Context, id string) (p place, unlock func(), err error) {
	if p, err = l.place(id); err != nil {
		return p, nil, err
	}
	state := filepath.Dir(p.dir)
	if err := makePrivate(state); err != nil {
		return p, nil, err
	}
	unlock, err = lockfile.Lock(ctx, p.dir+".lock")
	return p, unlock, err
}

// makePrivate creates a directory that only this user can enter, or checks that it
// is one.
func makePrivate(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if err := fsops.CheckPrivate(info); err != nil {
		return fmt.Errorf("state directory %s is not yours alone: %w: give one of your own with 0700", dir, err)
	}
	return nil
}
