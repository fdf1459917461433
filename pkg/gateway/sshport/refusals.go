package sshport

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/podagent/podagent/pkg/gateway"
)

// errPlaces says that a client of a tenant that may have more finds no place.
var errPlaces = gateway.Fail(http.StatusTooManyRequests, "streams", "the gateway has as many connections as it may")

// refusals are the connections of clients that have a key, may not stay, and are being told why.
type refusals struct {
	mu  sync.Mutex
	all list.List // of net.Conn, the oldest first
}

// begin counts a connection until done is called. If there are too many, it closes the oldest.
func (r *refusals) begin(conn net.Conn) (done func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all.Len() >= maxRefusals {
		_ = r.all.Remove(r.all.Front()).(net.Conn).Close()
	}
	added := r.all.PushBack(conn)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.all.Remove(added) // which does nothing if it was removed
	}
}

// refuse tells a client why it may not stay: that takes a channel, which clients soon open.
func (p *Port) refuse(conn net.Conn, client *ssh.ServerConn, channels <-chan ssh.NewChannel, requests <-chan *ssh.Request, why error) {
	defer p.refusals.begin(conn)()
	ctx := context.Background()
	failure := p.Gateway.FailureOf(ctx, why)
	p.Gateway.TurnAway(ctx, failure.Status, failure.Class)
	late := time.AfterFunc(refusalTime, func() { conn.Close() })
	defer late.Stop()
	go ssh.DiscardRequests(requests)
	if opened, ok := <-channels; ok {
		_ = opened.Reject(ssh.ResourceShortage, failure.Text) // the client may be gone
	}
	client.Close()
	for opened := range channels {
		_ = opened.Reject(ssh.ResourceShortage, failure.Text)
	}
}
