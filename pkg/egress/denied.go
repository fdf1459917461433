package egress

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// mostTold bounds what one connection can have told of requests that are not even tries.
const mostTold = 32

// firsts knows what was there before on a connection.
type firsts struct {
	mu   sync.Mutex
	seen map[string]struct{}
}

// has reports whether a thing is there for the first time, and is one of the first mostTold.
func (f *firsts) has(thing string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, again := f.seen[thing]; again || len(f.seen) >= mostTold {
		return false
	}
	if f.seen == nil {
		f.seen = map[string]struct{}{}
	}
	f.seen[thing] = struct{}{}
	return true
}

// deny tells of a client's request that the proxy cannot serve, for a host if it names one.
// It tells it once for each host and connection.
func (p *proxy) deny(c *client, protocol, host, port, reason string) {
	d := Decision{Time: time.Now(), Verdict: Denied, Protocol: protocol, Reason: reason}
	d.Port, _ = strconv.Atoi(port)
	if to, err := newTarget(host, port); err == nil {
		d.Host = to.host()
	} else if host != "" {
		d.Host = fmt.Sprintf("%+.100q", host)
	}
	if c.denied.has(d.Host + " " + reason) {
		d.ID = p.ids.Add(1)
		p.log(d)
	}
}

// badRequest answers a request that the proxy cannot serve, and tells of it.
func (p *proxy) badRequest(w http.ResponseWriter, r *http.Request, protocol, host, port, why string) {
	p.deny(r.Context().Value(clientKey{}).(*client), protocol, host, port, why)
	answer{status: http.StatusBadRequest, body: why + ".\n"}.write(w)
}
