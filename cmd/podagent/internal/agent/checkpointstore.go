package agent

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
	"github.com/podagent/podagent/pkg/procfs"
)

// checkpoints is the store of the workdir's checkpoints, or why there is none.
type checkpoints struct {
	store   *checkpoint.Store
	root    string // the tree
	missing error
	// settled, unless it is nil, is closed once no restore is under way that an earlier agent has begun, or once the agent
	// ends: then unsettled says so.
	settled        chan struct{}
	unsettled      error
	sent, received transfers
	after          func(time.Duration) <-chan time.Time // for transfers: time.After
}

// settle waits for that.
func (c *checkpoints) settle(ctx context.Context) error {
	if c.settled == nil {
		return nil
	}
	select {
	case <-c.settled:
		return c.unsettled
	case <-ctx.Done():
		return ctx.Err()
	}
}

// openCheckpoints opens the store, and begins to complete or undo a restore that was cut off. Until that is done, calls
// that may use files wait: see settle. It must be called before anything else uses the workdir, and once it is known
// what is protected. An agent without a store serves all else.
func (a *Agent) openCheckpoints(ctx context.Context) {
	if !a.openStore() || !a.checkpoints.store.Interrupted() {
		return
	}
	a.checkpoints.settled = make(chan struct{})
	go func() {
		defer close(a.checkpoints.settled)
		defer a.activity.begin()()
		a.recoverTree(ctx)
		a.followProtected()
	}()
}

// recoverTree completes or undoes a restore that was cut off. If the agent ends meanwhile, no call may use the tree before the
// next agent has done so. If neither can be done, the service Checkpoints says so until a caller decides.
func (a *Agent) recoverTree(ctx context.Context) {
	a.log.Info("a restore was cut off, and is completed or undone: calls that may use files wait")
	switch err := a.checkpoints.store.Recover(ctx); {
	case errors.Is(err, checkpoint.ErrIncomplete):
		a.log.Warn("the restore that was cut off is complete, or undone, but not for all files", "error", err)
	case err != nil && ctx.Err() != nil && a.checkpoints.store.Interrupted():
		a.checkpoints.unsettled = fmt.Errorf("%w: the agent ends before a restore that was cut off is complete, or undone: %w", wire.ErrUnavailable, ctx.Err())
	case err != nil:
		a.log.Error("a restore was cut off, and can be neither completed nor undone: no more checkpoints until somebody decides", "error", err)
	default:
		a.log.Info("the restore that was cut off is complete, or undone")
	}
}

// settle waits until no restore is under way that an earlier agent has begun, if a call may use files. How long that
// takes depends on the files, and whoever started the agent waits less than a minute for it to serve.
func (a *Agent) settle(ctx context.Context, method string) error {
	if usesNoFiles(method) {
		return nil
	}
	return a.checkpoints.settle(ctx)
}

// usesNoFiles reports whether a method is one of those that only tell or set what the agent has in memory, or that
// carry bytes between others.
func usesNoFiles(method string) bool {
	service, _, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	switch service {
	case pb.Agent_ServiceDesc.ServiceName, pb.Ports_ServiceDesc.ServiceName, pb.Egress_ServiceDesc.ServiceName:
		return true
	}
	return isHealth(method)
}

// openStore opens the store, and reports whether there is one.
func (a *Agent) openStore() bool {
	a.checkpoints.root = a.fs.Workdir()
	if a.config.Checkpoints == "" {
		a.checkpoints.missing = fmt.Errorf("this sandbox has no place for checkpoints: %w", errors.ErrUnsupported)
		return false
	}
	var processes procfs.FS
	store, err := checkpoint.Open(a.config.Checkpoints, a.checkpoints.root, checkpoint.Options{
		Protected: func(path string) error { return a.fs.MayChange(filepath.Join(a.checkpoints.root, path)) },
		Mapped:    func() map[uint64]bool { return mapped(&processes) },
		Boot:      processes.BootID(),
		Volume:    a.config.CheckpointsVolume,
	})
	if err != nil {
		a.log.Error("there are no checkpoints", "error", err)
		a.checkpoints.missing = err
		return false
	}
	a.checkpoints.store, a.checkpoints.sent, a.checkpoints.received, a.checkpoints.after = store, newTransfers(), newTransfers(), time.After
	return true
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
