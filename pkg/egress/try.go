package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/podagent/podagent/internal/halves"
)

// try is a client's attempt to reach a host.
type try struct {
	proxy    *proxy
	id       uint64
	protocol string
	host     string // for decisions
	port     int
	target   target
	grant    grant
	told     sync.Once // that the opener has reached the host
}

// newTry makes a try of what a client asks for. The error is a *refusal or a notNow, which
// it has told.
func (p *proxy) newTry(protocol, host, port string) (*try, error) {
	t := &try{proxy: p, id: p.ids.Add(1), protocol: protocol, host: fmt.Sprintf("%+.100q", host)}
	t.port, _ = strconv.Atoi(port)
	var err error
	if t.target, err = newTarget(host, port); err != nil {
		return t, t.failed(&refusal{reason: err.Error()})
	}
	t.host, t.port = t.target.host(), int(t.target.port)
	if err = p.mayTry(); err != nil {
		return t, t.failed(notNow{err})
	}
	if t.grant, err = p.currentPolicy().grant(t.target); err != nil {
		return t, t.failed(err)
	}
	return t, nil
}

// connect connects to the host, and tells how that went.
func (t *try) connect(ctx context.Context) (*link, error) {
	l, err := t.proxy.reach(ctx, t)
	if err != nil {
		return nil, t.failed(err)
	}
	t.tell(Allowed, l.addr, "")
	return l, nil
}

// failed tells why a try was denied or failed, and returns that error.
func (t *try) failed(err error) error {
	d := t.decision(Failed, netip.Addr{}, err.Error())
	var r *refusal
	switch {
	case errors.As(err, &r):
		d.Verdict, d.Allow = Denied, r.allow
		d.public.reason, d.public.allow = r.public, r.ask
	case errors.As(err, new(notNow)):
		d.Verdict = Denied
	}
	t.proxy.log(d)
	return err
}

func (t *try) tell(v Verdict, addr netip.Addr, reason string) {
	t.proxy.log(t.decision(v, addr, reason))
}

func (t *try) decision(v Verdict, addr netip.Addr, reason string) Decision {
	d := Decision{
		Time: time.Now(), Verdict: v, ID: t.id,
		Host: t.host, Port: t.port, Address: addr, Protocol: t.protocol,
		Rule: t.grant.rule.String(), Reason: reason,
	}
	if t.grant.rule.pinned.IsValid() {
		d.public.rule = t.grant.rule.public()
	}
	return d
}

// opens reports whether TLS to the host is opened, so that no connection to it is
// needed before the client's hello.
func (t *try) opens() bool {
	return t.proxy.opener != nil && t.proxy.opener.opens(t.host, t.port)
}

// tunnel carries the bytes of a client that was told that it is connected to the host,
// by the link, or if TLS to it is opened, without one. It closes both.
func (t *try) tunnel(ctx context.Context, c *client, l *link) {
	if l == nil {
		t.openTLS(ctx, c)
		return
	}
	t.proxy.pair(l, c)
	splice(c, l, t.proxy.goneTime, func() bool {
		_, err := t.check(c)
		return !isRefusal(err) // carrying sees an end or another error again
	})
}

// openTLS has the opener serve a client. What is not TLS goes through as it is.
func (t *try) openTLS(ctx context.Context, c *client) {
	_ = c.SetReadDeadline(time.Now().Add(t.proxy.headerTime)) // an error comes with the read, too
	o, err := t.check(c)
	_ = c.SetReadDeadline(time.Time{})
	switch {
	case isRefusal(err):
		return
	case err != nil:
		halves.Reset(c)
		return
	case o.tls:
		// Its errors are those of the client and the server, who know them.
		err := t.proxy.opener.open(context.WithValue(ctx, tryKey{}, t), c, t.target, t.dial)
		if err != nil {
			t.told.Do(func() { t.tell(Failed, netip.Addr{}, fmt.Sprintf("no request came: %v", err)) })
		}
		return
	}
	l, err := t.connect(ctx)
	if err != nil {
		halves.Reset(c)
		return
	}
	t.proxy.pair(l, c)
	splice(c, l, t.proxy.goneTime, func() bool { return true })
}

// dial connects to the host for the opener.
func (t *try) dial(ctx context.Context) (net.Conn, error) {
	l, err := t.proxy.reach(ctx, t)
	if err != nil {
		t.told.Do(func() {})
		return nil, t.failed(err)
	}
	t.told.Do(func() { t.tell(Allowed, l.addr, "") })
	return l, nil
}

// check reads what the client sends first, and gives it back to the client's reader. If
// it may not pass, check ends the client and returns a *refusal. Other errors are the
// client's.
func (t *try) check(c *client) (opening, error) {
	o, err := readOpening(c, t.proxy.headerTime)
	if len(o.head) > 0 {
		c.unread(o.head)
	}
	switch {
	case err == nil:
		err = t.proxy.currentPolicy().checkOpening(o, t.target)
	case o.tls:
		err = &refusal{reason: err.Error()}
	}
	if isRefusal(err) {
		_ = t.failed(err)
		goodbye(c, accessDenied)
	}
	return o, err
}

func isRefusal(err error) bool {
	var r *refusal
	return errors.As(err, &r)
}
