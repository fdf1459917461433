package gateway

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/podagent/podagent/pkg/launcher"
)

// Drain says that the gateway will end soon: Ready fails from now on, and answers close their
// connections, so that callers connect anew. All requests are served as before.
func (g *Gateway) Drain() { g.streams.drain() }

// Shutdown ends the gateway once all requests are answered, or ctx has ended. It tells those who
// follow something, such as a terminal, a watch or a command's output, to go on with another
// gateway. When ctx ends, it ends the requests that are left: they have an answer that says so,
// unless it has begun already, and commands run on. It returns two seconds after that at the latest,
// if by then the Leader has returned, which is told at once. It does not keep new requests away: an
// HTTP server that shuts down at the same time does.
func (g *Gateway) Shutdown(ctx context.Context) error {
	g.endSweep()
	g.streams.tell()
	g.streams.wait(ctx)
	g.streams.end() // also those that were told: they have had as long
	return g.Close()
}

// Close ends the gateway at once: it is Shutdown without patience for requests that are not told to
// go on elsewhere. The sandboxes stay, and so do their processes.
func (g *Gateway) Close() error {
	g.streams.finish()
	last, cancel := context.WithTimeout(context.Background(), lastTime)
	defer cancel()
	g.streams.wait(last) // observers learn how requests ended whose connections were taken over
	g.mcp.close()
	g.end()
	g.sweeper.Wait()
	g.calls.close()
	return g.held.close()
}

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
	return fmt.Errorf("the launcher does not answer: %w", r.err)
}

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
