package e2b

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/podagent/podagent/pkg/gateway"
)

// Clients that cannot read a stream, such as E2B's for Python without asyncio, ask for the events of a
// watch again and again. Between the calls a gateway keeps them in memory, for a while; another
// gateway does not know of them, and says so.

type (
	watcherID struct {
		ID string `json:"watcherId"`
	}
	watcherEvents struct {
		Events []*fileEvent `json:"events,omitempty"`
	}
)

// watchers are the watches whose events are asked for.
type watchers struct {
	mu   sync.Mutex
	byID map[watcherKey]*watcher
}

// watcherKey names a watcher. Nobody sees one of another sandbox.
type watcherKey struct{ tenant, sandbox, id string }

// watcher is a watch, with the events since the last call that asked for them.
type watcher struct {
	life  context.Context // of the watch
	stop  func()          // ends it
	asked *time.Timer     // ends it, too

	mu     sync.Mutex
	events []*fileEvent
	size   int  // of their names, in bytes
	ended  bool // the watch has, by err, or because its directory is gone
	err    error
}

// add adds a watcher, unless its sandbox or its tenant has too many. One whose watch has ended makes room
// for it. It ends when it was not asked for a while.
func (ws *watchers) add(key watcherKey, w *watcher) error {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ofSandbox := func(k watcherKey) bool { return k.tenant == key.tenant && k.sandbox == key.sandbox }
	ofTenant := func(k watcherKey) bool { return k.tenant == key.tenant }
	if !ws.hasRoom(watchersOfSandbox, ofSandbox) || !ws.hasRoom(watchersLimit, ofTenant) {
		return gateway.Fail(http.StatusTooManyRequests, "too_many", fmt.Sprintf("there are as many watchers as there may be, %d of a sandbox and %d of all: remove some", watchersOfSandbox, watchersLimit))
	}
	if ws.byID == nil {
		ws.byID = map[watcherKey]*watcher{}
	}
	ws.byID[key] = w
	w.asked = time.AfterFunc(watcherIdle, func() { ws.remove(key) })
	return nil
}

// hasRoom reports whether there are less watchers of a kind than a limit, perhaps without one whose watch
// has ended. The lock is held.
func (ws *watchers) hasRoom(limit int, is func(watcherKey) bool) bool {
	n := 0
	for key := range ws.byID {
		if is(key) {
			n++
		}
	}
	for key, w := range ws.byID {
		if n >= limit && is(key) && w.hasEnded() {
			w.leave()
			delete(ws.byID, key)
			n--
		}
	}
	return n < limit
}

// removeOf ends the watchers of a sandbox.
func (ws *watchers) removeOf(tenant, sandbox string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for key, w := range ws.byID {
		if key.tenant == tenant && key.sandbox == sandbox {
			w.leave()
			delete(ws.byID, key)
		}
	}
}

// remove ends a watcher. It reports whether there was one.
func (ws *watchers) remove(key watcherKey) bool {
	ws.mu.Lock()
	w := ws.byID[key]
	delete(ws.byID, key)
	ws.mu.Unlock()
	if w == nil {
		return false
	}
	w.leave()
	return true
}

func (w *watcher) leave() {
	w.asked.Stop()
	w.stop()
}

func (w *watcher) hasEnded() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ended
}

// ask returns the watcher, which lasts for another while.
func (ws *watchers) ask(key watcherKey) (*watcher, bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w, ok := ws.byID[key]
	if ok {
		w.asked.Reset(watcherIdle)
	}
	return w, ok
}

// tell keeps an event.
func (w *watcher) tell(e *fileEvent) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.size += len(e.Name) + eventSize; w.size > watcherLimit {
		return errLost
	}
	w.events = append(w.events, e)
	return nil
}

// take returns the events so far. After the last one comes the error by which the watch ended. If its directory
// is gone, there is none, and nothing happens any more, as with envd.
func (w *watcher) take() ([]*fileEvent, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.events) == 0 {
		return nil, w.err
	}
	events := w.events
	w.events, w.size = nil, 0
	return events, nil
}

func (w *watcher) end(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended, w.err = true, err
}

// create adds a watcher, and waits until its watch is ready. The watch outlives ctx, but not the watcher's
// life, and nor does the watcher.
func (ws *watchers) create(ctx context.Context, key watcherKey, w *watcher, watch func(ready func() error) error) (*watcherID, error) {
	key.id = strings.ToLower(rand.Text())
	if err := ws.add(key, w); err != nil {
		w.stop()
		return nil, err
	}
	begun := make(chan error, 2)
	go func() {
		err := watch(func() error { begun <- nil; return nil })
		w.end(err)
		begun <- err
		if w.life.Err() != nil {
			ws.remove(key)
		}
	}()
	var err error
	select {
	case err = <-begun:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		ws.remove(key)
		return nil, err
	}
	return &watcherID{key.id}, nil
}

// events answers with what has happened since the last call.
func (ws *watchers) events(key watcherKey) (*watcherEvents, error) {
	w, ok := ws.ask(key)
	if !ok {
		return nil, errNoWatcher
	}
	events, err := w.take()
	return &watcherEvents{events}, err
}

// close ends a watcher.
func (ws *watchers) close(key watcherKey) (*struct{}, error) {
	if !ws.remove(key) {
		return nil, errNoWatcher
	}
	return &struct{}{}, nil
}

var errNoWatcher = gateway.Fail(http.StatusNotFound, "not_exist", "this gateway has no such watcher: it ended since nobody asked for its events, or is another gateway's")
