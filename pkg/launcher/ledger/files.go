package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/podagent/podagent/pkg/launcher/internal/lockfile"
)

// Files keeps each text in a file of a directory, which is made if it is missing. A change holds a
// lock on the file NAME.lock; a machine without such locks is an error.
type Files struct{ Dir string }

// Amend changes a text. It waits for other changes of that name, or until ctx ends.
func (f Files) Amend(ctx context.Context, name string, change Change) error {
	err := check(name)
	if err == nil {
		err = os.MkdirAll(f.Dir, 0o700)
	}
	if err == nil {
		err = f.amend(ctx, filepath.Join(f.Dir, name), change)
	}
	if err != nil {
		return fmt.Errorf("changing the ledger %s: %w", name, err)
	}
	return nil
}

// Names returns the names of the texts that are there.
func (f Files) Names(context.Context) ([]string, error) {
	entries, err := os.ReadDir(f.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, entry := range entries {
		if ext := filepath.Ext(entry.Name()); ext != lockExt && ext != nextExt {
			names = append(names, entry.Name())
		}
	}
	return names, err
}

// The endings of the files beside a text: its lock, and what is about to replace it.
const (
	lockExt = ".lock"
	nextExt = ".next"
)

func (f Files) amend(ctx context.Context, path string, change Change) error {
	unlock, err := lockfile.Lock(ctx, path+lockExt)
	if err != nil {
		return err
	}
	defer unlock()
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text, _, err := apply(ctx, change, old)
	switch {
	case err != nil:
		return err
	case bytes.Equal(text, old):
		return nil
	case len(text) == 0:
		return os.Remove(path)
	}
	next := path + nextExt // the lock makes it this change's own
	if err := os.WriteFile(next, text, 0o600); err != nil {
		return err
	}
	return os.Rename(next, path)
}
