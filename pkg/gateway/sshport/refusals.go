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
	all list.List // of refusal, the oldest first
}

// refusal is one of them.
type refusal struct {
	conn   net.Conn
	tenant string // "" for a key that counts no longer
}

// begin counts a connection until done is called. If there are too many, it closes the oldest of the tenant that
// has the most of them, so that a tenant whose clients are many costs no other its reason.
func (r *refusals) begin(conn net.Conn, tenant string) (done func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all.Len() >= maxRefusals {
		_ = r.all.Remove(r.worst()).(refusal).conn.Close()
	}
	added := r.all.PushBack(refusal{conn, tenant})
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.all.Remove(added) // which does nothing if it was removed
	}
}

// worst returns the oldest refusal of the tenant that has the most. It is called with mu.
func (r *refusals) worst() (oldest *list.Element) {
	of, most := map[string]int{}, 0
	for e := r.all.Front(); e != nil; e = e.Next() {
		tenant := e.Value.(refusal).tenant
		of[tenant]++
		most = max(most, of[tenant])
	}
	oldest = r.all.Front()
	for of[oldest.Value.(refusal).tenant] < most {
		oldest = oldest.Next()
	}
	return oldest
}

// refuse tells a client of a tenant why it may not stay: that takes a channel, which clients soon open.
func (p *Port) refuse(conn net.Conn, tenant string, client *ssh.ServerConn, channels <-chan ssh.NewChannel, requests <-chan *ssh.Request, why error) {
	defer p.refusals.begin(conn, tenant)()
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
