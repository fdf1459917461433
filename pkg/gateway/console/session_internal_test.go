package console

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"
)

func TestSessionExpires(t *testing.T) {
	key := [32]byte{1}
	for expires, valid := range map[time.Duration]bool{sessionTime: true, time.Minute: true, -time.Second: false, -sessionTime: false} {
		s := newSession("acme", "token")
		s.Expires = time.Now().Add(expires).Unix()
		value, err := s.seal(key)
		if err != nil {
			t.Fatal(err)
		}
		got, err := openSeal([][32]byte{{2}, key}, value)
		if valid != (err == nil) || valid && *got != *s || !valid && !errors.Is(err, errNoSession) {
			t.Errorf("one that ends in %v: %v %v", expires, got, err)
		}
		if _, err := openSeal([][32]byte{{2}, {3}}, value); !errors.Is(err, errNoSession) {
			t.Errorf("without its key: %v", err)
		}
	}
}

func TestRequestsEndWithTheirSession(t *testing.T) {
	e := newEnded(nil)
	s, another, short := newSession("acme", "token"), newSession("acme", "token"), newSession("acme", "token")
	short.Expires = time.Now().Add(-time.Second).Unix()
	ctx, over, err := e.begin(t.Context(), s)
	other, overOther, _ := e.begin(t.Context(), another)
	expired, overExpired, _ := e.begin(t.Context(), short)
	if err != nil || ctx.Err() != nil || !errors.Is(context.Cause(expired), errEnded) {
		t.Fatal(err, ctx.Err(), context.Cause(expired))
	}
	if err := e.end(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	if !errors.Is(context.Cause(ctx), errEnded) || other.Err() != nil {
		t.Error(context.Cause(ctx), other.Err())
	}
	if _, _, err := e.begin(t.Context(), s); !errors.Is(err, errNoSession) {
		t.Errorf("a session that has ended goes on: %v", err)
	}
	over()
	overOther()
	overExpired()
	if len(e.open) > 0 || e.of("acme").open != 0 {
		t.Errorf("%d are left", len(e.open))
	}
}

func TestEndedSessionsTakeBoundedRoomOfTheirTenantAlone(t *testing.T) {
	e := newEnded(nil)
	victim := newSession("other", "token")
	_ = e.end(t.Context(), victim)
	for i := range 10 * endedLimit {
		s := newSession("acme", "token")
		s.ID, s.Expires = strconv.Itoa(i), s.Expires+int64(i)
		_ = e.end(t.Context(), s)
		if _, _, err := e.begin(t.Context(), s); !errors.Is(err, errNoSession) {
			t.Fatal("the newest is forgotten")
		}
	}
	if n := len(e.byTenant["acme"].expires); n != endedLimit {
		t.Errorf("%d are remembered", n)
	}
	if _, _, err := e.begin(t.Context(), victim); !errors.Is(err, errNoSession) {
		t.Error("another tenant's is forgotten")
	}
}
