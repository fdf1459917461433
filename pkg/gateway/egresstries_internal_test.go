package gateway

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/podagent/podagent/pkg/egress"
)

// triesLog keeps what it is told.
type triesLog struct {
	mu  sync.Mutex
	all []EgressTry
}

func (*triesLog) Begin(context.Context, Act) error  { return nil }
func (*triesLog) End(context.Context, Act, Outcome) {}
func (l *triesLog) EgressTried(_ context.Context, t EgressTry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, t)
	return nil
}

func (l *triesLog) has(verdict egress.Verdict, host, secret string) (lines int) {
	for _, t := range l.all {
		if t.Verdict == verdict && t.Host == host && t.Secret == secret {
			lines++
		}
	}
	return lines
}

// Whatever a sandbox tries in a loop, what it reaches elsewhere has its line.
func TestLoopOfTriesHidesNoOther(t *testing.T) {
	const many = 10 * egressTryBurst
	log := &triesLog{}
	g := New(Options{Observers: []Observer{log}})
	defer g.Close()
	tries := newTries(g, "acme", "job-1")
	tell := func(v egress.Verdict, host, secret string) {
		tries.tell(egress.Decision{Verdict: v, Host: host, Secret: secret})
	}
	for n := range many {
		tell(egress.Denied, fmt.Sprintf("denied-%d.test", n), "")
	}
	for range many {
		tell(egress.Allowed, "loop.test", "")
		tell(egress.Noticed, "loop.test", "KEY")
	}
	tell(egress.Allowed, "quiet.test", "")
	tell(egress.Allowed, "loop.test", "KEY")
	tell(egress.Noticed, "quiet.test", "KEY")
	for _, want := range []egress.Decision{
		{Verdict: egress.Allowed, Host: "quiet.test"},
		{Verdict: egress.Allowed, Host: "loop.test", Secret: "KEY"},
		{Verdict: egress.Noticed, Host: "quiet.test", Secret: "KEY"},
	} {
		if n := log.has(want.Verdict, want.Host, want.Secret); n != 1 {
			t.Errorf("%+v has %d lines", want, n)
		}
	}
	if len(log.all) > many {
		t.Errorf("there are %d lines", len(log.all))
	}
	tries.flush(true)
	count := 0
	for _, try := range log.all {
		count += try.Count
	}
	if count != 3*many+3 {
		t.Errorf("%d tries are told", count)
	}
	for verdict, room := range tries.rooms {
		if len(room.firsts) > egressTryFirsts {
			t.Errorf("%d hosts are remembered of %s", len(room.firsts), verdict)
		}
	}
}
