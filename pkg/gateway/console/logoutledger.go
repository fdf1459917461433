package console

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// ledgerPrefix begins the names of what replicas tell each other.
const ledgerPrefix = "console."

// errRead leaves a text of the ledger as it is.
var errRead = errors.New("it is only read")

// exchange is one with the ledger: it learns which sessions of a tenant have been ended, and tells which were here.
// A tenant has one under way at a time, which all its requests share, however many they are.
type exchange struct {
	began time.Time
	over  chan struct{} // closed at its end; what follows is set then
	ended time.Time
	err   error
}

// failed reports whether it has failed so lately that another one would, too.
func (x *exchange) failed() bool { return x.err != nil && time.Since(x.ended) < ledgerInterval }

// isOver reports whether it has ended.
func (x *exchange) isOver() bool {
	select {
	case <-x.over:
		return true
	default:
		return false
	}
}

// exchange returns the exchange that is under way for a tenant, or the last one if that has just failed. Otherwise
// it begins one, which no caller's context ends. It is called with mu.
func (l *logouts) exchange(tenant string) *exchange {
	of := l.of(tenant)
	if x := of.exchange; x != nil && (!x.isOver() || x.failed()) {
		return x
	}
	of.exchange = &exchange{began: time.Now(), over: make(chan struct{})}
	go l.run(of.exchange, tenant)
	return of.exchange
}

// run makes an exchange.
func (l *logouts) run(x *exchange, tenant string) {
	ctx, cancel := context.WithTimeout(context.Background(), ledgerTime)
	defer cancel()
	var got record
	told := 0
	err := l.ledger.Amend(ctx, ledgerPrefix+tenant, func(_ context.Context, old []byte) (text []byte, until time.Time, err error) {
		got = parse(old)
		text, told, err = l.textWith(got, tenant)
		return text, time.Now().Add(sessionTime), err
	})
	if errors.Is(err, errRead) {
		err = nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if x.ended, x.err = time.Now(), err; err == nil {
		l.add(tenant, got)
		of := l.of(tenant)
		of.readAt, of.told = x.began, told
	}
	close(x.over)
}

// textWith returns the text of what the ledger has and what is known here, and how much of the latter there was to
// tell. Its error is errRead if there is nothing new.
func (l *logouts) textWith(got record, tenant string) (text []byte, told int, err error) {
	l.mu.Lock()
	of := l.of(tenant)
	all, told, none := record{}, of.toTell, of.told == of.toTell
	all.add(got)
	all.add(of.record)
	l.mu.Unlock()
	if none {
		return nil, told, errRead
	}
	text, err = json.Marshal(all)
	return text, told, err
}

// parse reads a text of the ledger. One that cannot be read says nothing.
func parse(text []byte) record {
	var all record
	if json.Unmarshal(text, &all) != nil {
		return record{}
	}
	return all
}

// prepare has a text for a tenant, if there are replicas: reading one that is not there would take longer.
func (l *logouts) prepare(ctx context.Context, tenant string) error {
	l.mu.Lock()
	l.of(tenant).toTell++
	l.mu.Unlock()
	return l.tell(ctx, tenant)
}

// tell returns when the replicas have been told what there was to tell of a tenant.
func (l *logouts) tell(ctx context.Context, tenant string) error {
	if l.ledger == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.of(tenant)
	for toTell := of.toTell; of.told < toTell; { // an exchange that began before does not tell it
		x := l.exchange(tenant)
		l.mu.Unlock()
		select {
		case <-x.over:
		case <-ctx.Done():
		}
		l.mu.Lock()
		if !x.isOver() {
			return ctx.Err()
		}
		if x.err != nil {
			return x.err
		}
	}
	return nil
}

// read learns which sessions of a tenant have been ended at other replicas, unless that is known. While the ledger
// does not answer, what was known counts for ledgerPatience. After that, the error says that nobody can tell.
func (l *logouts) read(ctx context.Context, tenant string) error {
	if l.ledger == nil {
		return nil
	}
	l.mu.Lock()
	age := time.Since(l.of(tenant).readAt)
	if age < ledgerInterval {
		l.mu.Unlock()
		return nil
	}
	x := l.exchange(tenant)
	l.mu.Unlock()
	known := age < ledgerPatience
	var enough <-chan time.Time
	if known {
		timer := time.NewTimer(time.Until(x.began.Add(ledgerWait)))
		defer timer.Stop()
		enough = timer.C
	}
	select {
	case <-x.over:
		if known {
			return nil
		}
		return x.err
	case <-enough:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// watch asks the ledger while a tenant has requests under way, so that these end with their sessions. If nobody
// can tell any more, they end as well.
func (l *logouts) watch(of *tenantLogouts, tenant string) {
	ctx, cancel := context.WithCancel(context.Background())
	of.stopWatch = cancel
	if l.ledger == nil {
		return
	}
	go func() {
		ticker := time.NewTicker(ledgerInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			if l.read(ctx, tenant) != nil && ctx.Err() == nil {
				l.endOpen(tenant)
			}
		}
	}()
}

// endOpen ends the requests of a tenant. Their sessions go on.
func (l *logouts) endOpen(tenant string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, o := range l.open {
		if o.tenant == tenant {
			o.cancel(errUntold)
			delete(l.open, id) // the next request is not of it
		}
	}
}

var errUntold = errors.New("nobody can tell whether the session goes on")
