package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/podagent/podagent/pkg/launcher"
)

// Ready returns nil if the gateway can serve: it is not to end, it can tell who calls and what links
// are valid, and the launcher has answered lately.
func (g *Gateway) Ready(ctx context.Context) error {
	if g.streams.draining.Err() != nil {
		return errClosing
	}
	if err := g.loaded(); err != nil {
		return err
	}
	return g.reach.check(ctx)
}

// loaded returns what is wrong with the files of keys.
func (g *Gateway) loaded() error {
	err := g.LinkKeys.Load()
	switch t := g.Tenants.(type) {
	case OneTenant:
		if t.SSH != nil {
			err = errors.Join(err, t.SSH.Load())
		}
	case *Keys:
		return errors.Join(err, t.Load())
	case *ServiceAccounts:
		return errors.Join(err, t.Keys.Load())
	}
	return err
}

// reach knows whether the launcher answers. It asks only if it is asked, and not each time.
type reach struct {
	ask func(context.Context) error

	mu       sync.Mutex
	asked    time.Time
	answered time.Time     // zero if it never has
	asking   chan struct{} // closed when the answer is there; nil if there is no question
	err      error         // of the last question
}

// check returns why the launcher does not answer. It waits for an answer only if there never was one.
func (r *reach) check(ctx context.Context) error {
	r.mu.Lock()
	if r.asking == nil && time.Since(r.asked) >= reachInterval {
		r.asked, r.asking = time.Now(), make(chan struct{})
		go r.find(r.asking)
	}
	asking, first := r.asking, r.answered.IsZero()
	r.mu.Unlock()
	if first && asking != nil {
		select {
		case <-asking:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.answered.IsZero() && time.Since(r.answered) < reachableFor {
		return nil
	}
	return fmt.Errorf("the launcher does not answer: %w", cmp.Or(r.err, errLongAgo))
}

// errLongAgo says that nobody has asked for so long that the answer does not count.
var errLongAgo = errors.New("its last answer was long ago, and it is being asked")

// find asks.
func (r *reach) find(done chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), reachTime)
	defer cancel()
	err := r.ask(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err = err; err == nil {
		r.answered = time.Now()
	}
	r.asking = nil
	close(done)
}

// askLauncher looks for a sandbox that no tenant can have: its id has no separator.
func (g *Gateway) askLauncher(ctx context.Context) error {
	_, err := g.Launcher.Find(ctx, "ready")
	if errors.Is(err, launcher.ErrNotFound) {
		return nil
	}
	return err
}
