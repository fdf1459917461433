package console

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher/ledger"
)

// watched is a ledger that notes how it is used.
type watched struct {
	gateway.Ledger               // nil if it hangs
	amended, atOnce atomic.Int64 // how often; and how often beside another
	underWay        atomic.Int64
	before          func() // called before each change; nil for nothing
}

func (w *watched) Amend(ctx context.Context, name string, change func(context.Context, []byte) ([]byte, time.Time, error)) error {
	w.amended.Add(1)
	if w.underWay.Add(1) > 1 {
		w.atOnce.Add(1)
	}
	defer w.underWay.Add(-1)
	if w.before != nil {
		w.before()
	}
	if w.Ledger == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	return w.Ledger.Amend(ctx, name, change)
}

// While the ledger hangs, all of a tenant's requests soon go on by what was known, and one exchange at a time asks. What
// nobody has known for long enough refuses them.
func TestLedgerThatHangsHoldsUpNoTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watched{}
		l, s := newLogouts(w), newSession("acme", "token")
		l.of("acme").readAt = time.Now().Add(-ledgerInterval)
		began := time.Now()
		for time.Since(began) < ledgerPatience-ledgerInterval-2*ledgerWait {
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					before := time.Now()
					_, over, err := l.begin(t.Context(), s)
					if took := time.Since(before); err != nil || took > ledgerWait {
						t.Errorf("after %v it took %v: %v", before.Sub(began), took, err)
						return
					}
					over()
				})
			}
			all.Wait()
			time.Sleep(ledgerWait)
		}
		if n := w.amended.Load(); w.atOnce.Load() > 0 || n > int64(ledgerPatience/ledgerTime) {
			t.Errorf("the ledger was asked %d times, %d of them beside another", n, w.atOnce.Load())
		}
		time.Sleep(ledgerPatience)
		if _, _, err := l.begin(t.Context(), s); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("what was known counts for too long: %v", err)
		}
		before := time.Now()
		if _, _, err := l.begin(t.Context(), s); err == nil || time.Since(before) > 0 {
			t.Errorf("after a failure it takes %v: %v", time.Since(before), err)
		}
	})
}

func TestCallersLeaveALedgerThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s := newLogouts(&watched{}), newSession("acme", "token")
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		before := time.Now()
		_, _, err := l.begin(ctx, s)
		l.end(s)
		told := l.tell(ctx, "acme")
		if took := time.Since(before); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(told, context.DeadlineExceeded) || took != time.Millisecond {
			t.Errorf("they leave after %v: %v, %v", took, err, told)
		}
		time.Sleep(ledgerTime) // the exchange ends as well
	})
}

// However many sessions of a tenant end at once, the ledger is asked for them together, and all are told.
func TestSessionsThatEndAtOnceAreToldTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		block := make(chan bool)
		w := &watched{Ledger: ledger.Files{Dir: t.TempDir()}, before: func() { <-block }}
		l := newLogouts(w)
		var sessions []*session
		for i := range 100 {
			s := newSession("acme", "token")
			s.ID = strconv.Itoa(i)
			sessions = append(sessions, s)
			go func() {
				l.end(s)
				if err := l.tell(t.Context(), "acme"); err != nil {
					t.Error(err)
				}
			}()
		}
		synctest.Wait()
		close(block)
		synctest.Wait()
		if n := w.amended.Load(); n > 2 || w.atOnce.Load() > 0 {
			t.Errorf("the ledger was asked %d times, %d of them beside another", n, w.atOnce.Load())
		}
		other := newLogouts(w)
		for _, s := range sessions {
			if _, _, err := other.begin(t.Context(), s); !errors.Is(err, errNoSession) {
				t.Fatalf("session %s at another replica: %v", s.ID, err)
			}
		}
	})
}

// What could not be told is told with the next exchange.
func TestLogoutThatCouldNotBeToldIsToldLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := ledger.Files{Dir: t.TempDir()}
		w := &watched{}
		l, s, another := newLogouts(w), newSession("acme", "token"), newSession("acme", "token")
		l.end(s)
		if err := l.tell(t.Context(), "acme"); err == nil || l.over(s) {
			t.Fatal("it was told")
		}
		w.Ledger = files
		time.Sleep(ledgerInterval)
		_, over, err := l.begin(t.Context(), another)
		if err != nil || !l.over(s) {
			t.Fatal(err, l.over(s))
		}
		over()
		if _, _, err := newLogouts(files).begin(t.Context(), s); !errors.Is(err, errNoSession) {
			t.Errorf("at another replica: %v", err)
		}
	})
}
