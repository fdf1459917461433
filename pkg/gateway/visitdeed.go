package gateway

import (
	"context"
	"slices"
	"strings"
	"sync"
)

type deedKey struct{}

// deed is what several calls are together, such as the reads of a file that is open.
type deed struct {
	ctx context.Context

	mu    sync.Mutex
	call  *visitCall // the first
	of    string     // its method and paths
	parts int        // how many there were since it has paid
	paid  int64      // how many bytes it had moved by then
}

// WithDeed returns a context whose calls of one method, on the same paths, are one act for observers, and one
// of the tenant's streams. It ends with ctx. It takes one more call of the tenant's rate after each 64 of them,
// or 16 MiB.
func WithDeed(ctx context.Context) context.Context {
	return context.WithValue(ctx, deedKey{}, &deed{ctx: ctx})
}

// deed begins a call that may be part of a deed.
func (c *visitConn) deed(ctx context.Context, operation string, what asked, method string) (*visitCall, error) {
	d, ok := ctx.Value(deedKey{}).(*deed)
	if !ok || d.ctx.Err() != nil {
		return c.begin(ctx, operation, what, false)
	}
	first, owes, err := d.first(ctx, c, operation, what, method)
	if err != nil {
		return nil, err
	}
	if first == nil {
		return c.begin(ctx, operation, what, false)
	}
	part := &visitCall{conn: c, act: first.act, end: func() {}}
	part.bind(context.WithValue(context.WithValue(ctx, callerKey{}, c.caller.Caller), actKey{}, first.act), false)
	if owes {
		_, err = c.pace(part.ctx, false, func(p Policy) (func(), error) { return nil, c.g.loads.pay(c.caller.Tenant, p) })
	}
	if err != nil {
		defer part.leave()
		return nil, part.finish(err)
	}
	return part, nil
}

// first returns the call that the deed is, which it begins if there is none, and whether the next part has to
// pay; nil if a call is not part of it.
func (d *deed) first(ctx context.Context, c *visitConn, operation string, what asked, method string) (first *visitCall, owes bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	of := strings.Join(slices.Concat([]string{method}, what.Paths), "\x00")
	if d.call == nil {
		if first, err = c.begin(context.WithoutCancel(ctx), operation, what, false); err != nil {
			return nil, false, err
		}
		d.call, d.of = first, of
		context.AfterFunc(d.ctx, first.leave)
	}
	if d.of != of {
		return nil, false, nil
	}
	return d.call, d.owes(), nil
}

// owes counts a part, and reports whether it has to pay. It is called with mu.
func (d *deed) owes() bool {
	moved := d.call.act.in.Load() + d.call.act.out.Load()
	if d.parts++; d.parts <= deedParts && moved-d.paid < deedBytes {
		return false
	}
	d.parts, d.paid = 0, moved
	return true
}
