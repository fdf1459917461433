package gateway

import (
	"context"
	"time"
)

type expireInput struct {
	ID   string `path:"id" doc:"the sandbox's name"`
	Body struct {
		At time.Time `json:"at" doc:"when it is to end itself: in the future, and not beyond its active deadline"`
	}
}

// expire sets when a sandbox ends itself, which extend only puts off.
func (g *Gateway) expire(ctx context.Context, in *expireInput) (*extendOutput, error) {
	p, err := g.pauser()
	if err != nil {
		return nil, err
	}
	left := time.Until(in.Body.At)
	if left <= 0 {
		return nil, invalid("at: %s has passed", in.Body.At.UTC().Format(time.RFC3339))
	}
	if err := g.mayLast(ctx, "at", left); err != nil {
		return nil, err
	}
	out := &extendOutput{}
	id := launcherID(tenantOf(ctx), in.ID)
	out.Body.ExpiresAt, err = g.endWithin(ctx, id, in.Body.At, func() (time.Time, error) { return p.Expire(ctx, id, in.Body.At) })
	return out, err
}

// mayLast refuses an end that is further ahead than the caller's policy allows.
func (g *Gateway) mayLast(ctx context.Context, name string, longer time.Duration) error {
	policy, err := g.policy(ctx)
	if err != nil {
		return err
	}
	return checkTime(name, longer.Round(time.Second), policy.Max.Lifetime)
}
