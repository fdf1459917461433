package agent

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
	"github.com/podagent/podagent/pkg/procfs"
)

// checkpoints is the store of the workdir's checkpoints, or why there is none.
type checkpoints struct {
	store   *checkpoint.Store
	root    string // the tree
	missing error
}

// openCheckpoints opens the store, and completes or undoes a restore that was cut off. It must be called before
// anything else uses the workdir, and once it is known what is protected. An agent without a store serves all else.
func (a *Agent) openCheckpoints(ctx context.Context) {
	a.checkpoints.root = a.fs.Workdir()
	if a.config.Checkpoints == "" {
		a.checkpoints.missing = fmt.Errorf("this sandbox has no place for checkpoints: %w", errors.ErrUnsupported)
		return
	}
	var processes procfs.FS
	store, err := checkpoint.Open(a.config.Checkpoints, a.checkpoints.root, checkpoint.Options{
		Protected: func(path string) error { return a.fs.MayChange(filepath.Join(a.checkpoints.root, path)) },
		Mapped:    func() map[uint64]bool { return mapped(&processes) },
		Boot:      processes.BootID(),
	})
	if err != nil {
		a.log.Error("there are no checkpoints", "error", err)
		a.checkpoints.missing = err
		return
	}
	a.checkpoints.store = store
	switch recovered, err := store.Recover(ctx); {
	case err != nil:
		a.log.Error("a restore was cut off, and can be neither completed nor undone", "error", err)
	case recovered:
		a.log.Info("a restore that was cut off is complete, or undone")
	}
}

// mapped returns the inodes of the files that processes map to write to them. Processes that hide from their own
// user do not tell.
func mapped(processes *procfs.FS) map[uint64]bool {
	pids, err := processes.PIDs()
	if err != nil {
		return nil
	}
	inodes := map[uint64]bool{}
	for _, pid := range pids {
		_ = processes.MapsToWrite(pid, func(inode uint64) { inodes[inode] = true })
	}
	return inodes
}
