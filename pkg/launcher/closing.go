package launcher

import (
	"context"
	"errors"
	"sync"
)

// atClose adds to what Close does. What was added last is done first, and each
// has cleanupTimeout.
func (s *Sandbox) atClose(do func(ctx context.Context) error) {
	before := s.onClose
	s.onClose = func() error {
		ctx, cancel := context.WithTimeout(s.calm(), cleanupTimeout)
		defer cancel()
		err := do(ctx)
		if before != nil {
			err = errors.Join(err, before())
		}
		return err
	}
}

// calm returns a context that does not end.
func (s *Sandbox) calm() context.Context { return s.target.logged(context.Background()) }

// background runs a task until the sandbox is closed, which waits for its end.
func (s *Sandbox) background(task func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(s.calm())
	var running sync.WaitGroup
	running.Go(func() { task(ctx) })
	s.atClose(func(context.Context) error {
		cancel()
		running.Wait()
		return nil
	})
}
