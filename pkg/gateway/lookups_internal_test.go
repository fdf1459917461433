package gateway

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podagent/podagent/pkg/launcher"
)

// webLookups find sandboxes of the name web alone, and take a second for each.
func webLookups(t *testing.T) *lookups {
	return newLookups(t.Context(), func(ctx context.Context, id string) (launcher.Summary, error) {
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return launcher.Summary{}, ctx.Err()
		}
		if id != "acme.web" && id != "other.web" {
			return launcher.Summary{}, launcher.ErrNotFound
		}
		return launcher.Summary{ID: id}, nil
	})
}

// flood asks for as many of acme's sandboxes as it can, none of which there is.
func (l *lookups) flood(t *testing.T) {
	t.Helper()
	for i := range lookupLimit {
		_, err := l.join("acme", fmt.Sprintf("x%d", i))
		if full := i == lookupLimit-1; err != nil && !full {
			t.Fatalf("name %d: %v", i, err)
		}
	}
}

func TestStrangersOfOneTenantHoldUpNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := webLookups(t)
		l.flood(t)
		if s, err := l.get(t.Context(), "other", "web"); s.ID != "other.web" || err != nil {
			t.Errorf("%v, %v", s.ID, err)
		}
	})
}

func TestStrangersHoldUpNoSandboxThatWasThereBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := webLookups(t)
		find := l.find
		var away atomic.Bool
		l.find = func(ctx context.Context, id string) (launcher.Summary, error) {
			if away.Load() {
				return launcher.Summary{}, errors.New("away")
			}
			return find(ctx, id)
		}
		for range 3 {
			if s, err := l.get(t.Context(), "acme", "web"); s.ID != "acme.web" || err != nil {
				t.Errorf("%v, %v", s.ID, err)
			}
			time.Sleep(lookupTime) // what was found counts no more, and the flood before is over
			away.Store(true)
			if _, err := l.get(t.Context(), "acme", "web"); err == nil {
				t.Error("it was found while nobody could look")
			}
			away.Store(false)
			time.Sleep(lookupFor)
			l.flood(t)
		}
		time.Sleep(lookupTime)
		synctest.Wait()
	})
}

func TestWhatStrangersAskForIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := webLookups(t)
		l.flood(t)
		if _, err := l.join("acme", "web"); !errors.Is(err, errLookups) {
			t.Errorf("beyond the limit: %v", err)
		}
		time.Sleep(lookupTime)
		synctest.Wait()
		if s, err := l.get(t.Context(), "acme", "web"); s.ID != "acme.web" || err != nil {
			t.Errorf("%v, %v", s.ID, err)
		}
	})
}
