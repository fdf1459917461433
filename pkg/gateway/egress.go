package gateway

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/podagent/podagent/internal/delay"
	"github.com/podagent/podagent/pkg/gateway/internal/peers"
)

// A sandbox whose tenant has an [Egress] reaches others by a gateway: its far end (egressfarend.go),
// which one gateway keeps for it, whether callers come or not. Which one that is follows from which
// gateways there are (package peers), and each looks at all sandboxes now and then. Who makes a
// sandbox or resumes it begins at once, and stands back for the one that is to keep it.
//
// Two far ends may be there at a time. The agent uses the one of the highest generation, which has the
// epoch of the gateways in it. A far end that is replaced carries on what it has begun.

// waysOut are the far ends that this gateway has.
type waysOut struct {
	g     *Gateway
	peers *peers.Peers
	hurry chan struct{} // has a value if there is another view

	levelInterval time.Duration // see egressLevelInterval

	leave context.CancelFunc // of peers, and so of what this gateway keeps
	life  context.Context    // of all far ends
	end   context.CancelFunc
	all   sync.WaitGroup

	mu      sync.Mutex
	view    peers.View
	joined  bool // the peers know of this gateway, or are about to
	leaving bool
	listed  time.Time // when the last list began
	known   map[string]tenantSandbox
	farEnds map[string]*farEnd
	tenants map[string]*tenantEgress
	open    int // connections, of all tenants
}

// egressTenants are tenants who can say whether any of them has an Egress, so that a gateway without any
// looks at no sandboxes.
type egressTenants interface {
	HasEgress() bool
}

func newWaysOut(g *Gateway) *waysOut {
	w := &waysOut{
		g: g, hurry: make(chan struct{}, 1), levelInterval: egressLevelInterval,
		known: map[string]tenantSandbox{}, farEnds: map[string]*farEnd{}, tenants: map[string]*tenantEgress{},
	}
	w.life, w.end = context.WithCancel(context.Background())
	w.peers = &peers.Peers{Text: egressText, Changed: w.see, Log: g.Log}
	if g.Ledger != nil {
		w.peers.Ledger = g.Ledger
	}
	if g.Tenants != nil && g.Launcher != nil {
		w.all.Go(w.run)
	}
	return w
}

// egressText is the name of the text in which gateways agree on who keeps which sandbox.
const egressText = "egress"

// see takes over another view.
func (w *waysOut) see(v peers.View) {
	w.mu.Lock()
	if len(v.Gateways) < len(w.view.Gateways) {
		w.listed = time.Time{} // what the one that is gone kept may be newer than the list
	}
	w.view = v
	w.mu.Unlock()
	select {
	case w.hurry <- struct{}{}:
	default:
	}
}

// run keeps what this gateway is to keep.
func (w *waysOut) run() {
	for w.life.Err() == nil {
		if t, can := w.g.Tenants.(egressTenants); !can || t.HasEgress() || w.hasFarEnds() {
			w.look()
		}
		select {
		case <-w.life.Done():
		case <-w.hurry:
		case <-time.After(egressInterval):
		}
	}
}

func (w *waysOut) hasFarEnds() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.farEnds) > 0
}

// look looks whether there is something to begin, to change or to end.
func (w *waysOut) look() {
	w.mu.Lock()
	due := time.Since(w.listed) >= egressListInterval
	w.mu.Unlock()
	w.join()
	if due {
		w.list(w.life)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, s := range w.known {
		w.settle(id, s)
	}
	for id, f := range w.farEnds {
		if _, known := w.known[id]; !known {
			f.end()
		}
	}
}

// settle does what there is to do about a sandbox. Its caller has the lock.
func (w *waysOut) settle(id string, s tenantSandbox) {
	policy := w.tenant(s.tenant).policy(w.life, w.g)
	f, keeps := w.farEnds[id], !w.leaving && w.view.Keeps(id)
	switch {
	case f != nil && (policy == nil || !f.isOf(s)):
		f.end()
	case policy != nil && f == nil && keeps:
		w.begin(s, policy)
	case policy != nil && f != nil:
		f.update(policy, keeps, w.view.Epoch)
	}
}

// tenant returns what there is about a tenant. Its caller has the lock.
func (w *waysOut) tenant(name string) *tenantEgress {
	t := w.tenants[name]
	if t == nil {
		t = &tenantEgress{name: name}
		w.tenants[name] = t
	}
	return t
}

// join takes part in who keeps what, from when a tenant has an Egress.
func (w *waysOut) join() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.joined || w.leaving {
		return
	}
	w.joined = true
	ctx, leave := context.WithCancel(w.life)
	w.leave = leave
	w.all.Go(func() { w.peers.Run(ctx) })
}

// begin begins a far end. Its caller has the lock.
func (w *waysOut) begin(s tenantSandbox, policy *egressPolicy) *farEnd {
	f := newFarEnd(w, s, policy, !w.leaving && w.view.Keeps(s.ID), w.view.Epoch)
	w.farEnds[s.ID] = f
	w.all.Go(f.run)
	return f
}

// letOut begins the far end of a sandbox that this gateway has just made or resumed, unless there is
// one, and waits a while until that serves: the sandbox's first command is to have its way out.
func (w *waysOut) letOut(ctx context.Context, id string) {
	if w.start(ctx, id) {
		w.await(ctx, id)
	}
}

// start is letOut without waiting. It reports whether there is a far end.
func (w *waysOut) start(ctx context.Context, id string) bool {
	tenant, _, _ := splitID(id)
	w.mu.Lock()
	policy := w.tenant(tenant).policy(ctx, w.g)
	w.mu.Unlock()
	if policy == nil {
		return false
	}
	at := time.Now()
	s, err := w.g.Launcher.Find(ctx, id)
	if err != nil {
		w.g.Log.WarnContext(ctx, "cannot let a sandbox out yet", "sandbox", id, "error", err)
		return false
	}
	out, ok := tenantSandboxOf(s, at)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !ok || w.life.Err() != nil {
		return false
	}
	if f := w.farEnds[id]; f != nil {
		if f.ctx.Err() == nil && f.isOf(out) {
			return true
		}
		f.end() // it is of a predecessor
	}
	w.known[id] = out
	w.begin(out, policy)
	return true
}

// await waits a while until a sandbox is let out, if it is about to be.
func (w *waysOut) await(ctx context.Context, id string) {
	w.mu.Lock()
	f := w.farEnds[id]
	w.mu.Unlock()
	if f == nil {
		return
	}
	timer := time.NewTimer(egressPatience)
	defer timer.Stop()
	select {
	case <-f.settled:
	case <-timer.C:
		w.g.Log.WarnContext(ctx, "a sandbox is not let out yet", "sandbox", id)
	case <-ctx.Done():
	}
}

// forget ends the far end of a sandbox that is paused or removed.
func (w *waysOut) forget(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.known, id)
	if f := w.farEnds[id]; f != nil {
		f.end()
	}
}

// gone is what a far end calls that has ended. With lost the sandbox is not there any more, as far as
// it knows.
func (w *waysOut) gone(f *farEnd, lost bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.farEnds[f.ID] == f {
		delete(w.farEnds, f.ID)
	}
	if s, known := w.known[f.ID]; known && lost && !s.since.After(f.since) {
		delete(w.known, f.ID)
	}
}

// drain lets other gateways keep what this one keeps. It serves on until they do.
func (w *waysOut) drain() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leaving = true
	if w.leave != nil {
		w.leave()
	}
}

// wait waits until no connection is open, or ctx ends.
func (w *waysOut) wait(ctx context.Context) {
	for ctx.Err() == nil {
		w.mu.Lock()
		open := w.open
		w.mu.Unlock()
		if open == 0 {
			return
		}
		_ = delay.For(ctx, egressQuiet)
	}
}

// close ends all far ends. The connections that are open are reset.
func (w *waysOut) close() {
	w.drain()
	w.end()
	w.all.Wait()
}

// admit takes a connection into account, if its tenant may have another one.
func (w *waysOut) admit(t *tenantEgress, most int, conn net.Conn, closed func(in, out int64)) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case t.open >= most:
		return nil, errEgressTenantFull
	case w.open >= egressConnections:
		return nil, errEgressFull
	}
	t.open++
	w.open++
	return newEgressConn(conn, func(in, out int64) {
		w.mu.Lock()
		t.open--
		w.open--
		w.mu.Unlock()
		closed(in, out)
	}), nil
}
