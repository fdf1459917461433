package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/podagent/podagent/pkg/launcher"
)

// addIdle asks the agents of those of the caller's sandboxes that run how long they have been idle, if that is
// wanted. This ends no idle time, and wakes none. What is not told soon stays away: agents are at the mercy of
// what runs beside them. The error is that of a context that has ended.
func (g *Gateway) addIdle(ctx context.Context, wanted bool, all []Sandbox) error {
	if !wanted {
		return nil
	}
	soon, cancel := context.WithTimeout(ctx, idleTime)
	defer cancel()
	var asked sync.WaitGroup
	slots := make(chan struct{}, idleAtOnce)
	for i := range all {
		if all[i].State != string(launcher.Running) {
			continue
		}
		select {
		case slots <- struct{}{}:
		case <-soon.Done():
			continue
		}
		asked.Go(func() {
			defer func() { <-slots }()
			all[i].IdleFor = g.idleFor(soon, all[i].ID)
		})
	}
	asked.Wait()
	return context.Cause(ctx)
}

// idleFor returns how long a sandbox has been idle, in whole seconds; nil if it does not say.
func (g *Gateway) idleFor(ctx context.Context, name string) (idle *int64) {
	_ = g.lookAt(ctx, name, func(s *launcher.Sandbox) error {
		info, err := s.Info(ctx)
		if err == nil {
			idle = new(int64(info.Idle / time.Second))
		}
		return err
	})
	return idle
}
