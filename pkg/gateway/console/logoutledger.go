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

// prepare has a text for a tenant, if there are replicas: reading one that is not there would take longer.
func (l *logouts) prepare(ctx context.Context, tenant string) error {
	return l.amend(ctx, tenant, func(*record) {})
}

// tell tells the replicas that a session has been ended.
func (l *logouts) tell(ctx context.Context, s *session) error {
	return l.amend(ctx, s.Tenant, func(all *record) { all.add(s.ended()) })
}

// amend changes what replicas know of a tenant.
func (l *logouts) amend(ctx context.Context, tenant string, change func(*record)) error {
	if l.ledger == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, ledgerTime)
	defer cancel()
	return l.ledger.Amend(ctx, ledgerPrefix+tenant, func(_ context.Context, old []byte) ([]byte, time.Time, error) {
		all := parse(old)
		change(&all)
		all.bound()
		text, err := json.Marshal(all)
		return text, time.Now().Add(sessionTime), err
	})
}

// parse reads a text of the ledger. One that cannot be read says nothing.
func parse(text []byte) record {
	var all record
	if json.Unmarshal(text, &all) != nil {
		return record{}
	}
	return all
}

// read learns which sessions of a tenant have been ended at other replicas, unless that is known. Its error says
// that nobody can tell.
func (l *logouts) read(ctx context.Context, tenant string) error {
	if l.ledger == nil {
		return nil
	}
	l.mu.Lock()
	of := l.of(tenant)
	l.mu.Unlock()
	of.reading.Lock()
	defer of.reading.Unlock()
	if time.Since(of.readAt) < ledgerInterval {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, ledgerTime)
	defer cancel()
	began, got := time.Now(), record{}
	err := l.ledger.Amend(ctx, ledgerPrefix+tenant, func(_ context.Context, old []byte) ([]byte, time.Time, error) {
		got = parse(old)
		return nil, time.Time{}, errRead
	})
	if !errors.Is(err, errRead) {
		if time.Since(of.readAt) < ledgerPatience {
			return nil
		}
		return err
	}
	of.readAt = began
	l.add(tenant, got)
	return nil
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
