// Package interleave runs operations on an API server in chosen orders of their calls: all
// orders that can make a difference, or random ones.
package interleave

import (
	"bytes"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// settle is the default of Schedule.Settle.
const settle = 50 * time.Millisecond

// Call is a call of the API that an operation is about to make.
type Call struct {
	Op             int
	Method, Object string // such as GET and /api/v1/namespaces/n/pods/p, or …/pods for a list
}

func (c Call) isRead() bool { return c.Method == http.MethodGet }

// commutes reports whether the order of two calls makes no difference.
func (c Call) commutes(other Call) bool {
	return c.isRead() && other.isRead() ||
		c.Object != other.Object && path.Dir(c.Object) != other.Object && c.Object != path.Dir(other.Object)
}

// Schedule lets one call at a time through, in an order that it is told.
type Schedule struct {
	// Settle is how long an operation may take from one call to the next until the others go
	// on without it, because it waits for something else. On a busy machine it may only be
	// slow. Then an order comes out as another one: All says how often.
	Settle time.Duration

	choose func([]Call) Call

	mu      sync.Mutex
	changed *sync.Cond
	starts  []func()
	ops     []*operation
	writes  int
}

// operation is what one operation is about to do.
type operation struct {
	waiting []*request
	ended   bool
	moved   time.Time // when it last made or got a call
	reads   []Call    // since the last write of any operation
	seen    int       // how many writes there were then
}

type request struct {
	Call
	granted chan struct{}
}

func newSchedule(choose func([]Call) Call) *Schedule {
	s := &Schedule{Settle: settle, choose: choose}
	s.changed = sync.NewCond(&s.mu)
	return s
}

// Go adds an operation, which makes its calls through the transport that it gets. It begins
// with Run.
func (s *Schedule) Go(do func(wrap func(http.RoundTripper) http.RoundTripper)) {
	n, op := len(s.ops), &operation{}
	s.ops = append(s.ops, op)
	s.starts = append(s.starts, func() {
		do(func(base http.RoundTripper) http.RoundTripper { return &gate{s, n, op, base} })
		s.change(func() { op.ended = true })
	})
}

// Run runs the operations to their ends.
func (s *Schedule) Run() {
	for i, start := range s.starts {
		s.ops[i].moved = time.Now()
		go start()
	}
	for {
		calls, ended := s.next()
		if ended {
			return
		}
		s.let(s.choose(calls))
	}
}

// next returns the next call of each operation that makes one.
func (s *Schedule) next() (calls []Call, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		calls, busy, ended := s.state()
		if ended || len(calls) > 0 && !busy {
			return calls, ended
		}
		wake := time.AfterFunc(s.Settle, s.changed.Broadcast)
		s.changed.Wait()
		wake.Stop()
	}
}

// state returns the next calls, and whether an operation is about to make another. One that
// only repeats what it has read is left out as long as others go on.
func (s *Schedule) state() (calls []Call, busy, ended bool) {
	ended = true
	var polls []Call
	for _, op := range s.ops {
		ended = ended && op.ended
		switch {
		case op.ended:
		case len(op.waiting) == 0:
			busy = busy || time.Since(op.moved) < s.Settle
		case op.seen == s.writes && repeats(op.reads, op.waiting[0].Call):
			polls = append(polls, op.waiting[0].Call)
		default:
			calls = append(calls, op.waiting[0].Call)
		}
	}
	if len(calls) == 0 && !busy {
		calls = polls
	}
	return calls, busy, ended
}

// repeats reports whether a call asks again what was asked before, as did the one before it:
// whoever polls may ask several things in turn.
func repeats(reads []Call, c Call) bool {
	n := len(reads)
	return n > 0 && slices.Contains(reads, c) && (slices.Contains(reads[:n-1], reads[n-1]) || n == 1 || reads[n-1] == c)
}

// let lets a call through, and returns when it has been answered.
func (s *Schedule) let(c Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	op := s.ops[c.Op]
	if len(op.waiting) == 0 || op.waiting[0].Call != c {
		return // it was given up meanwhile
	}
	r := op.waiting[0]
	if op.seen != s.writes {
		op.reads, op.seen = nil, s.writes
	}
	if c.isRead() {
		op.reads = append(op.reads, c)
	} else {
		s.writes++
	}
	close(r.granted)
	for slices.Contains(op.waiting, r) {
		s.changed.Wait()
	}
}

func (s *Schedule) change(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
	s.changed.Broadcast()
}

// gate is the transport of one operation.
type gate struct {
	s    *Schedule
	n    int
	op   *operation
	base http.RoundTripper
}

// RoundTrip implements http.RoundTripper. Watches and port-forwards are let through at once.
func (g *gate) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Query().Get("watch") != "" || strings.HasSuffix(req.URL.Path, "/portforward") {
		return g.base.RoundTrip(req)
	}
	r := &request{Call{g.n, req.Method, objectOf(req)}, make(chan struct{})}
	g.s.change(func() { g.op.waiting, g.op.moved = append(g.op.waiting, r), time.Now() })
	defer g.s.change(func() {
		g.op.waiting = slices.DeleteFunc(g.op.waiting, func(other *request) bool { return other == r })
		g.op.moved = time.Now()
	})
	select {
	case <-r.granted:
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
	response, err := g.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(response.Body)
	response.Body.Close()
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, err
}

// objectOf returns the path that a request is about. That which creates an object has the path
// of the collection.
func objectOf(req *http.Request) string { return strings.TrimSuffix(req.URL.Path, "/") }
