package launcher

import (
	"context"
	"sync"

	"github.com/podagent/podagent/pkg/podapi"
)

// Lazy returns a sandbox that its first call launches. If that fails, waiting calls
// return the error, and the next tries again. An empty ID is made up now. Workdir is the Spec's.
// The launch outlives its call, but not Close.
func Lazy(l Launcher, spec Spec) (*Sandbox, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	if spec.deletes() {
		spec.OnClose = CloseDelete
	}
	if spec.ID == "" {
		spec.ID = newID()
	}
	z := &lazy{launcher: l, spec: spec}
	z.ctx, z.cancel = context.WithCancel(context.Background())
	return &Sandbox{Client: podapi.Deferred(z.open, z.close), ID: spec.ID, Workdir: spec.Workdir, terminate: z.terminate}, nil
}

// lazy launches its sandbox when it is first needed.
type lazy struct {
	launcher Launcher
	spec     Spec
	ctx      context.Context // ends at Close
	cancel   context.CancelFunc

	mu     sync.Mutex
	latest *attempt
}

// attempt is a launch under way, or its result.
type attempt struct {
	done    chan struct{}
	sandbox *Sandbox
	err     error
}

// open returns the client of the sandbox, once it is launched.
func (z *lazy) open(ctx context.Context) (*podapi.Client, error) {
	a := z.begin()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-a.done:
	}
	if a.err != nil {
		return nil, a.err
	}
	return a.sandbox.Client, nil
}

// begin returns the present attempt, or begins one.
func (z *lazy) begin() *attempt {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.latest != nil {
		return z.latest
	}
	a := &attempt{done: make(chan struct{})}
	z.latest = a
	go func() {
		a.sandbox, a.err = z.launcher.Launch(z.ctx, z.spec)
		if a.err != nil {
			z.mu.Lock()
			z.latest = nil // the next call tries again
			z.mu.Unlock()
		}
		close(a.done)
	}()
	return a
}

// close ends an attempt that is under way, and closes the launched sandbox.
func (z *lazy) close() error {
	if s := z.end(); s != nil {
		return s.Close()
	}
	return nil
}

// terminate is close, and terminates the launched sandbox.
func (z *lazy) terminate(ctx context.Context) error {
	if s := z.end(); s != nil {
		return s.Terminate(ctx)
	}
	return nil
}

// end ends an attempt that is under way, and returns the launched sandbox, or nil.
func (z *lazy) end() *Sandbox {
	z.cancel()
	z.mu.Lock()
	a := z.latest
	z.mu.Unlock()
	if a == nil {
		return nil
	}
	<-a.done
	return a.sandbox
}
