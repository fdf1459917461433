package launcher

import (
	"context"
	"path/filepath"

	"github.com/podagent/podagent/pkg/launcher/internal/lockfile"
)

const lockSuffix = ".lock"

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
	if err := regain(p.dir+lockSuffix, 0o600); err != nil {
		return p, nil, err
	}
	unlock, err = lockfile.Lock(ctx, p.dir+lockSuffix)
	return p, unlock, err
}
