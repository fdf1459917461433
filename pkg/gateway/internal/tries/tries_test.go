package tries

import (
	"errors"
	"fmt"
	"testing"

	"github.com/podagent/podagent/pkg/egress"
)

// triesLog has what was said, and fails if it is full.
type triesLog struct {
	all  []Try
	full error
}

func (l *triesLog) say(t Try) error {
	if l.full == nil {
		l.all = append(l.all, t)
	}
	return l.full
}

func (l *triesLog) count() (n int) {
	for _, t := range l.all {
		n += t.Count
	}
	return n
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
	const many = 10 * burst
	log := &triesLog{}
	tries := &Tries{Say: log.say}
	tell := func(v egress.Verdict, host, secret string) {
		tries.Tell(egress.Decision{Verdict: v, Host: host, Secret: secret})
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
	tries.Flush(true)
	if n := log.count(); n != 3*many+3 {
		t.Errorf("%d tries are told", n)
	}
	for verdict, room := range tries.rooms {
		if len(room.firsts) > mostFirsts {
			t.Errorf("%d hosts are remembered of %s", len(room.firsts), verdict)
		}
	}
}

// While tries cannot be said, nothing may be tried; those that were are counted once they can.
func TestNothingMayBeTriedWhileTriesCannotBeSaid(t *testing.T) {
	full := errors.New("full")
	log, failed := &triesLog{full: full}, 0
	tries := &Tries{Say: log.say, Failing: func(err error) {
		if failed++; !errors.Is(err, full) {
			t.Error(err)
		}
	}}
	for range 3 {
		tries.Tell(egress.Decision{Verdict: egress.Denied, Host: "a.test"})
	}
	if err := tries.MayTry(); err == nil || failed != 1 {
		t.Errorf("it may try: %v, after %d failures", err, failed)
	}
	log.full = nil
	if err := tries.MayTry(); err != nil || log.count() != 3 {
		t.Errorf("it may not try: %v; %d tries are told", err, log.count())
	}
}
