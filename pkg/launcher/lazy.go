package launcher

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/podagent/podagent/pkg/podapi"
)

// Lazy returns a sandbox that is declared, and launched by its first call. A
// launch that fails is that call's error, and the next call tries again. An
// empty ID is made up now; Workdir is the Spec's until then and after, so that
// it is empty where the launcher chooses. Close closes what was launched.
//
// The launch goes on when the call that began it ends before: other calls may
// wait for it.
func Lazy(l Launcher, spec Spec) (*Sandbox, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	if spec.OnClose == CloseDefault && spec.ID == "" {
		spec.OnClose = CloseDelete
	}
	if spec.ID == "" {
		spec.ID = newID()
	}
	z := &lazy{launcher: l, spec: spec}
	z.ctx, z.cancel = context.WithCancel(context.Background())
	client, err := podapi.Dial(podapi.DialOptions{Dialer: z.dial, Retry: z.retry, Timeout: lazyTimeout})
	if err != nil {
		return nil, err
	}
	return &Sandbox{Client: client, ID: spec.ID, Workdir: spec.Workdir, onClose: z.close}, nil
}

// lazy launches its sandbox when it is first dialled, and then stands in front
// of its connections.
type lazy struct {
	launcher Launcher
	spec     Spec
	ctx      context.Context // ends at Close
	cancel   context.CancelFunc

	mu       sync.Mutex
	launched *launch
}

// launch is a launch under way, or its result.
type launch struct {
	done    chan struct{}
	sandbox *Sandbox
	err     error
}

// launchError is a launch's error, which trying again at once does not mend.
type launchError struct{ error }

func (e launchError) Unwrap() error { return e.error }

func (z *lazy) dial(ctx context.Context) (net.Conn, error) {
	l := z.begin()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-l.done:
	}
	if l.err != nil {
		return nil, launchError{l.err}
	}
	return l.sandbox.dial.Connect(ctx)
}

// retry lets the sandbox's own dialer decide, once there is one.
func (z *lazy) retry(ctx context.Context, try int, err error) error {
	if failed, ok := errors.AsType[launchError](err); ok {
		return failed.error
	}
	l := z.begin()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-l.done:
	}
	if l.sandbox == nil || l.sandbox.dial.Retry == nil {
		return err
	}
	return l.sandbox.dial.Retry(ctx, try, err)
}

// begin returns the launch that there is, or begins one.
func (z *lazy) begin() *launch {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.launched != nil {
		return z.launched
	}
	l := &launch{done: make(chan struct{})}
	z.launched = l
	go func() {
		l.sandbox, l.err = z.launcher.Launch(z.ctx, z.spec)
		if l.err != nil {
			z.mu.Lock()
			z.launched = nil // the next call tries again
			z.mu.Unlock()
		}
		close(l.done)
	}()
	return l
}

// close ends a launch that is under way, and closes what was launched.
func (z *lazy) close() error {
	z.cancel()
	z.mu.Lock()
	l := z.launched
	z.mu.Unlock()
	if l == nil {
		return nil
	}
	<-l.done
	if l.sandbox == nil {
		return nil
	}
	return l.sandbox.Close()
}
