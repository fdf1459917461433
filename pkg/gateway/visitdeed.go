package gateway

import (
	"context"
	"slices"
	"strings"
	"time"
)

type deedKey struct{}

// deed is what several calls are together, such as the reads of a file that is open.
type deed struct {
	ctx context.Context

	// locked has an element while a call uses what follows. A call that has to pay keeps it until it has: others
	// wait behind it, until they are given up.
	locked chan struct{}
	call   *visitCall // the first
	of     string     // its method and paths
	parts  int        // how many there were that nobody has paid for
	paid   int64      // how many of the bytes that it has moved are paid for
}

// WithDeed returns a context whose calls of one method, on the same paths, are one act for observers, and one
// of the tenant's streams. It ends with ctx. It takes one more call of the tenant's rate after each 64 of them,
// or 16 MiB; until then its next call waits, or fails.
func WithDeed(ctx context.Context) context.Context {
	return context.WithValue(ctx, deedKey{}, &deed{ctx: ctx, locked: make(chan struct{}, 1)})
}

// deed begins a call that may be part of a deed.
func (c *visitConn) deed(ctx context.Context, operation string, what asked, method string) (*visitCall, error) {
	d, ok := ctx.Value(deedKey{}).(*deed)
	if !ok || d.ctx.Err() != nil {
		return c.begin(ctx, operation, what, false)
	}
	part, err := d.join(ctx, c, operation, what, method)
	if err == nil && part == nil {
		return c.begin(ctx, operation, what, false)
	}
	return part, err
}

// join begins a part of the deed, which it begins if there is none, once what others have used is paid for. It
// returns nil if a call is not part of it.
func (d *deed) join(ctx context.Context, c *visitConn, operation string, what asked, method string) (*visitCall, error) {
	until := time.Now().Add(paceTime)
	if err := d.lock(ctx, c); err != nil {
		return nil, c.g.grpcStatus(ctx, err).Err()
	}
	defer func() { <-d.locked }()
	of := strings.Join(slices.Concat([]string{method}, what.Paths), "\x00")
	if d.call == nil {
		first, err := c.begin(context.WithoutCancel(ctx), operation, what, false)
		if err != nil {
			return nil, err
		}
		d.call, d.of = first, of
		context.AfterFunc(d.ctx, first.leave)
	}
	if d.of != of {
		return nil, nil
	}
	part := &visitCall{conn: c, act: d.call.act, end: func() {}}
	part.bind(context.WithValue(context.WithValue(ctx, callerKey{}, c.caller.Caller), actKey{}, d.call.act), false)
	if err := d.pay(part, until); err != nil {
		defer part.leave()
		return nil, part.finish(err)
	}
	d.parts++
	return part, nil
}

// lock waits until no other call uses the deed, or the call or its visit ends.
func (d *deed) lock(ctx context.Context, c *visitConn) error {
	select {
	case d.locked <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.valid.Done():
		return context.Cause(c.valid)
	}
}

// pay pays for the parts before this one. What could not be paid is owed still. It is called with the lock.
func (d *deed) pay(part *visitCall, until time.Time) error {
	c := part.conn
	for {
		moved := d.call.act.in.Load() + d.call.act.out.Load()
		if d.parts < deedParts && moved-d.paid < deedBytes {
			return nil
		}
		_, err := c.pace(part.ctx, false, until, func(p Policy) (func(), error) { return nil, c.g.loads.pay(c.caller.Tenant, p) })
		if err != nil {
			return err
		}
		d.parts, d.paid = max(d.parts-deedParts, 0), min(d.paid+deedBytes, moved)
	}
}
