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
func (e *ended) prepare(ctx context.Context, tenant string) error {
	return e.amend(ctx, tenant, func(map[string]time.Time) {})
}

// tell tells the replicas that a session has been ended.
func (e *ended) tell(ctx context.Context, s *session) error {
	return e.amend(ctx, s.Tenant, func(all map[string]time.Time) { all[s.ID] = s.expires() })
}

// amend changes what replicas know of a tenant.
func (e *ended) amend(ctx context.Context, tenant string, change func(map[string]time.Time)) error {
	if e.ledger == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, ledgerTime)
	defer cancel()
	return e.ledger.Amend(ctx, ledgerPrefix+tenant, func(_ context.Context, old []byte) ([]byte, time.Time, error) {
		all := parse(old)
		change(all)
		bound(all)
		text, err := json.Marshal(all)
		return text, time.Now().Add(sessionTime), err
	})
}

// parse reads a text of the ledger. One that cannot be read says nothing.
func parse(text []byte) map[string]time.Time {
	all := map[string]time.Time{}
	_ = json.Unmarshal(text, &all)
	return all
}

// read learns which sessions of a tenant have been ended at other replicas, unless that is known. Its error says
// that nobody can tell.
func (e *ended) read(ctx context.Context, tenant string) error {
	if e.ledger == nil {
		return nil
	}
	e.mu.Lock()
	of := e.of(tenant)
	e.mu.Unlock()
	of.reading.Lock()
	defer of.reading.Unlock()
	if time.Since(of.readAt) < ledgerInterval {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, ledgerTime)
	defer cancel()
	began, got := time.Now(), map[string]time.Time{}
	err := e.ledger.Amend(ctx, ledgerPrefix+tenant, func(_ context.Context, old []byte) ([]byte, time.Time, error) {
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
	e.add(tenant, got)
	return nil
}

// watch asks the ledger while a tenant has requests under way, so that these end with their sessions. If nobody
// can tell any more, they end as well.
func (e *ended) watch(of *endedOf, tenant string) {
	ctx, cancel := context.WithCancel(context.Background())
	of.ended = cancel
	if e.ledger == nil {
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
			if e.read(ctx, tenant) != nil && ctx.Err() == nil {
				e.endOpen(tenant)
			}
		}
	}()
}

// endOpen ends the requests of a tenant. Their sessions go on.
func (e *ended) endOpen(tenant string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, o := range e.open {
		if o.tenant == tenant {
			o.cancel(errUntold)
			delete(e.open, id) // the next request is not of it
		}
	}
}

var errUntold = errors.New("nobody can tell whether the session goes on")
