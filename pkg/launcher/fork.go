package launcher

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
	"github.com/podagent/podagent/pkg/podapi"
)

// Fork launches new sandboxes whose workdir is that of a checkpoint of another sandbox, several at once. Each gets from
// the other's agent what it lacks, through this process. The specs say what they are like: see [SpecOf] for one like
// the other. Their Git is ignored. A sandbox that is there already is [fs.ErrExist], and stays as it is.
//
// The result has a sandbox for each spec, which the caller closes, or nil for one that failed, of which nothing is
// left. The errors are joined.
func Fork(ctx context.Context, l Launcher, from *Sandbox, id checkpoint.ID, specs ...Spec) ([]*Sandbox, error) {
	sandboxes, errs := make([]*Sandbox, len(specs)), make([]error, len(specs))
	turns := make(chan struct{}, forksAtOnce)
	var forks sync.WaitGroup
	for i, spec := range specs {
		forks.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			sandboxes[i], errs[i] = fork(ctx, l, from, id, spec)
			errs[i] = wrap("forking into", spec.ID, errs[i])
		})
	}
	forks.Wait()
	return sandboxes, errors.Join(errs...)
}

func fork(ctx context.Context, l Launcher, from *Sandbox, id checkpoint.ID, spec Spec) (*Sandbox, error) {
	exists := fmt.Errorf("it is there already: %w", fs.ErrExist)
	if spec.ID != "" {
		if _, err := l.Find(ctx, spec.ID); err == nil {
			return nil, exists
		} else if !errors.Is(err, ErrNotFound) {
			return nil, err
		}
	}
	spec.Git = nil // it is in the checkpoint
	sandbox, err := l.Launch(ctx, spec)
	if err != nil {
		return nil, err
	}
	if !sandbox.Created {
		return nil, errors.Join(exists, sandbox.Close())
	}
	copied, err := from.CopyCheckpoint(ctx, id, sandbox.Client, podapi.CopyOptions{Populate: true})
	if err == nil {
		return sandbox, nil
	}
	if len(copied.Kept) > 0 {
		err = fmt.Errorf("%w: %q: %s", err, copied.Kept[0].Path, copied.Kept[0].Why)
	}
	cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	return nil, errors.Join(err, sandbox.Terminate(cleanup))
}

// SpecOf returns a Spec for a sandbox like one that exists, without an ID, Git and named files: where the workdir is a
// directory that the other's Spec named, the new one's is its own. How the launcher itself is configured is not in it.
// A launcher that does not know it gives [errors.ErrUnsupported].
func SpecOf(ctx context.Context, l Launcher, id string) (Spec, error) {
	knows, ok := l.(interface {
		SpecOf(ctx context.Context, id string) (Spec, error)
	})
	if !ok {
		return Spec{}, wrap("finding out the spec of", id, errors.ErrUnsupported)
	}
	spec, err := knows.SpecOf(ctx, id)
	return spec, wrap("finding out the spec of", id, err)
}

// SpecOf is [SpecOf] for this launcher.
func (l *Local) SpecOf(_ context.Context, id string) (Spec, error) { return l.specOf(id) }
