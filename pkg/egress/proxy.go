package egress

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/podagent/podagent/internal/halves"
)

// opener opens TLS for hosts that get credentials.
type opener interface {
	// opens reports whether TLS to a host, in its canonical form, is opened.
	opens(host string, port int) bool
	// open serves the TLS connection of a client, from its hello on, which has asked for
	// the host. dial connects to the host if the policy still allows it; its errors are
	// those of [proxy.reach], which answerTo explains. open closes the client.
	// ctx has the try, by tryKey.
	open(ctx context.Context, client net.Conn, to target, dial func(context.Context) (net.Conn, error)) error
	// watch tells of placeholders of credentials in a request that is not opened.
	watch(r *http.Request, t *try)
}

// proxy serves the connections of one sandbox.
type proxy struct {
	dialer dialer
	opener opener // may be nil
	log    func(Decision)
	admits func(net.Conn) (net.Conn, error) // Options.Admit
	mayTry func() error                     // Options.MayTry
	ids    atomic.Uint64
	slots  chan struct{} // has an element for each client
	away   chan struct{} // and for each that is turned away
	server *http.Server

	headerTime, goneTime time.Duration

	http *httputil.ReverseProxy

	mu     sync.Mutex
	policy Policy
	links  map[*link]struct{}   // to hosts
	open   map[*client]struct{} // from the sandbox
	closed bool
}

func newProxy(opts Options, o opener) *proxy {
	p := &proxy{
		dialer: dialer{resolver: opts.Resolver, private: opts.Private},
		opener: o,
		log:    opts.Log,
		admits: opts.Admit,
		mayTry: opts.MayTry,
		slots:  make(chan struct{}, mostConnections),
		away:   make(chan struct{}, mostTurnedAway),
		policy: opts.Policy.clone(),
		links:  map[*link]struct{}{},
		open:   map[*client]struct{}{},

		headerTime: cmp.Or(opts.headerTime, headerTime),
		goneTime:   cmp.Or(opts.goneTime, goneTime),
	}
	if p.dialer.resolver == nil {
		p.dialer.resolver = net.DefaultResolver
	}
	if p.log == nil {
		p.log = func(Decision) {}
	}
	if p.mayTry == nil {
		p.mayTry = func() error { return nil }
	}
	p.ids.Store(firstID())
	p.http = p.forwarder()
	p.server = p.httpServer()
	return p
}

// firstID returns where the numbers of tries begin: at random, so that those of two far ends of a sandbox
// are others. It leaves them below 2^53, up to which all readers of JSON are exact.
func firstID() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:6]) // it never fails
	return binary.LittleEndian.Uint64(b[:])
}

// serve serves the connections of a listener until ctx ends or the listener fails. Then
// it closes it, and resets all connections.
func (p *proxy) serve(ctx context.Context, l net.Listener) error {
	handlers := newHandoff(l.Addr())
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	p.server.BaseContext = func(net.Listener) context.Context { return ctx }
	all.Go(func() { _ = p.server.Serve(handlers) })
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer func() {
		cancel()
		stop()
		l.Close()
		handlers.Close()
		p.end()
		all.Wait()
	}()
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			if err == nil {
				conn.Close()
			}
			return nil
		}
		if err != nil {
			return err
		}
		c, err := p.admit(conn)
		if err != nil {
			all.Go(func() { p.turnAway(conn, err) })
			continue
		}
		all.Go(func() { p.begin(ctx, c, handlers) })
	}
}

var errTooMany = errors.New("too many connections are open: close some, and try again")

// admit takes a connection, if there is a slot for it and the owner of the proxy lets it in.
func (p *proxy) admit(conn net.Conn) (*client, error) {
	select {
	case p.slots <- struct{}{}:
	default:
		return nil, errTooMany
	}
	if p.admits == nil {
		return p.accept(conn), nil
	}
	admitted, err := p.admits(conn)
	if err != nil {
		<-p.slots
		return nil, err
	}
	c := p.accept(admitted)
	c.life = lifeOf(conn) // which the other one may not have
	return c, nil
}

// accept gives a connection its slot back when it is closed.
func (p *proxy) accept(conn net.Conn) *client {
	var c *client
	c = newClient(conn, func() {
		p.mu.Lock()
		delete(p.open, c)
		p.mu.Unlock()
		<-p.slots
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[c] = struct{}{}
	return c
}

// turnAway answers a connection that was not admitted, if not too many others are being
// answered.
func (p *proxy) turnAway(conn net.Conn, err error) {
	p.log(Decision{Time: time.Now(), Verdict: Denied, ID: p.ids.Add(1), Reason: err.Error()})
	c := newClient(conn, func() {})
	select {
	case p.away <- struct{}{}:
		defer func() { <-p.away }()
		goodbye(c, notNow{err}.answer().raw())
	default:
		halves.Reset(c)
	}
}

// begin finds out by its first byte which protocol a client speaks, and serves it.
func (p *proxy) begin(ctx context.Context, c *client, handlers *handoff) {
	_ = c.SetReadDeadline(time.Now().Add(p.headerTime)) // an error comes with the read, too
	first := make([]byte, 1)
	if _, err := c.Read(first); err != nil {
		c.Close()
		return
	}
	switch first[0] {
	case socksVersion:
		p.serveSOCKS(c.during(ctx), c)
	case socksVersion4:
		p.deny(c, "", "", "", "SOCKS4 is not served: use SOCKS5")
		goodbye(c, []byte{0, 91, 0, 0, 0, 0, 0, 0})
	default:
		c.unread(first)
		_ = c.SetReadDeadline(time.Time{})
		handlers.give(c)
	}
}

// end resets all connections.
func (p *proxy) end() {
	p.mu.Lock()
	p.closed = true
	var all []duplex
	for c := range p.open {
		all = append(all, c)
	}
	for l := range p.links {
		all = append(all, l)
	}
	p.mu.Unlock()
	for _, c := range all {
		halves.Reset(c)
	}
	p.server.Close()
	p.http.Transport.(*tellingTransport).CloseIdleConnections()
}

// setPolicy changes the policy, and resets connections to what it does not allow.
func (p *proxy) setPolicy(policy Policy) {
	p.mu.Lock()
	p.policy = policy.clone()
	var refused []*link
	var conns []duplex
	for l := range p.links {
		if policy.stillAllows(l.try.target, l.addr, p.dialer.private) {
			continue
		}
		delete(p.links, l)
		refused, conns = append(refused, l), append(conns, l)
		if l.client != nil {
			conns = append(conns, l.client)
		}
	}
	p.mu.Unlock()
	for _, c := range conns {
		halves.Reset(c)
	}
	for _, l := range refused {
		l.try.tell(Denied, l.addr, notAnyMore(l.try.target))
	}
}

// pair says which client a link is for, so that both end when the policy refuses the link.
func (p *proxy) pair(l *link, c *client) {
	p.mu.Lock()
	l.client = c
	_, allowed := p.links[l]
	p.mu.Unlock()
	if !allowed {
		halves.Reset(c)
	}
}

func (p *proxy) currentPolicy() Policy {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.policy
}

// link is a connection to a host.
type link struct {
	*net.TCPConn
	try  *try // for which it was made
	addr netip.Addr
	over func()

	client *client // at the other end of a tunnel; guarded by proxy.mu
}

func (l *link) Close() error {
	l.over()
	return l.TCPConn.Close()
}

var errEnded = &unreachable{text: "the way out has ended"}

func notAnyMore(t target) string { return t.String() + " is not allowed any more" }

// reach connects to the target of a try, in connectTime. The error is a *refusal or an
// *unreachable.
func (p *proxy) reach(ctx context.Context, t *try) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	policy := p.currentPolicy()
	g, err := policy.grant(t.target)
	if err != nil {
		return nil, err
	}
	addrs, err := p.dialer.resolve(ctx, policy, t.target, g)
	if err != nil {
		return nil, err
	}
	conn, err := p.dialer.dial(ctx, t.target, addrs)
	if err != nil {
		return nil, err
	}
	return p.keep(conn, t)
}

// keep makes a link of a connection, if the policy has not changed against it.
func (p *proxy) keep(conn *net.TCPConn, t *try) (*link, error) {
	l := &link{TCPConn: conn, try: t, addr: conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()}
	l.over = func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.links, l)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		conn.Close()
		return nil, errEnded
	}
	if !p.policy.stillAllows(t.target, l.addr, p.dialer.private) {
		conn.Close()
		return nil, &refusal{reason: notAnyMore(t.target), allow: t.target.String(), rules: p.policy.shown()}
	}
	p.links[l] = struct{}{}
	return l, nil
}
