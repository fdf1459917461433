package console

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/launcher/ledger"
)

func TestRequestsEndWithTheirSession(t *testing.T) {
	l := newLogouts(nil)
	s, another, short := newSession("acme", "token"), newSession("acme", "token"), newSession("acme", "token")
	short.Expires = time.Now().Add(-time.Second).Unix()
	ctx, over, err := l.begin(t.Context(), s)
	other, overOther, _ := l.begin(t.Context(), another)
	expired, overExpired, _ := l.begin(t.Context(), short)
	if err != nil || ctx.Err() != nil || !errors.Is(context.Cause(expired), errEnded) {
		t.Fatal(err, ctx.Err(), context.Cause(expired))
	}
	l.end(s)
	<-ctx.Done()
	if !errors.Is(context.Cause(ctx), errEnded) || other.Err() != nil {
		t.Error(context.Cause(ctx), other.Err())
	}
	if _, _, err := l.begin(t.Context(), s); !errors.Is(err, errNoSession) {
		t.Errorf("a session that has ended goes on: %v", err)
	}
	over()
	overOther()
	overExpired()
	if len(l.open) > 0 || l.of("acme").active != 0 {
		t.Errorf("%d are left", len(l.open))
	}
}

func TestEndedSessionsTakeBoundedRoomOfTheirTenantAlone(t *testing.T) {
	l := newLogouts(nil)
	victim := newSession("other", "token")
	l.end(victim)
	for i := range 10 * endedLimit {
		s := newSession("acme", "token")
		s.ID, s.Expires = strconv.Itoa(i), s.Expires+int64(i)
		l.end(s)
		if _, _, err := l.begin(t.Context(), s); !errors.Is(err, errNoSession) {
			t.Fatal("the newest is forgotten")
		}
	}
	if n := len(l.byTenant["acme"].Expires); n != endedLimit {
		t.Errorf("%d are remembered", n)
	}
	if _, _, err := l.begin(t.Context(), victim); !errors.Is(err, errNoSession) {
		t.Error("another tenant's is forgotten")
	}
}

func TestSessionThatHasEndedStaysSoWhateverOthersEnd(t *testing.T) {
	l := newLogouts(ledger.Files{Dir: t.TempDir()})
	victim, later := newSession("acme", "token"), newSession("acme", "token")
	later.Expires = time.Now().Add(2 * sessionTime).Unix()
	l.end(victim)
	if err := l.tell(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	others := record{Expires: map[string]time.Time{}}
	for i := range endedLimit {
		others.Expires[strconv.Itoa(i)] = victim.expires().Add(time.Second)
	}
	other := newLogouts(l.ledger)
	other.add("acme", others)
	if err := other.prepare(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	for what, l := range map[string]*logouts{"the replica that ended it": l, "another": newLogouts(l.ledger)} {
		l.of("acme").readAt = time.Time{}
		if _, _, err := l.begin(t.Context(), victim); !errors.Is(err, errNoSession) {
			t.Errorf("at %s: %v", what, err)
		}
		if n := len(l.byTenant["acme"].Expires); n != endedLimit {
			t.Errorf("%s remembers %d", what, n)
		}
		_, over, err := l.begin(t.Context(), later)
		if err != nil {
			t.Fatal(err)
		}
		over()
	}
}

func TestRequestsThatEndSinceNobodyCanTellSaySo(t *testing.T) {
	l := newLogouts(nil)
	ctx, over, err := l.begin(t.Context(), newSession("acme", "token"))
	if err != nil {
		t.Fatal(err)
	}
	defer over()
	l.endOpen("acme")
	<-ctx.Done()
	if !errors.Is(context.Cause(ctx), errUntold) {
		t.Error(context.Cause(ctx))
	}
}
