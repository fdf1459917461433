package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/podagent/podagent/pkg/fsops"
)

func (g *Gateway) watchOperations() {
	g.raw(huma.Operation{
		OperationID: "watch", Method: http.MethodGet, Path: sandboxRoot + "/watch", Summary: "Follow changes to files, as server-sent events",
		Description: "The first event is ready: every change from then on is one of create, write, remove, rename and chmod. " +
			"overflow says that changes were lost, so that the files must be read again; error, with a problem, is the last event. " +
			"reconnect says that the gateway ends in some seconds: who watches with another one now, and leaves this one when that is ready, misses nothing. " +
			"Who does so later must read the files again.",
		Parameters: []*huma.Param{
			pathParam,
			param("query", "recursive", huma.TypeBoolean, "watch the whole tree, with directories that are made later"),
			param("query", "ignore", huma.TypeBoolean, "leave out .git, and what .gitignore files and their like exclude"),
			wakeParam,
		},
		Responses: map[string]*huma.Response{"200": {Description: "the events", Content: bodyOf(eventsType, g.schema(reflect.TypeFor[Change]()))}},
	}, func(c *rawCall) error { return c.watch(g) })
}

// Change is the data of an event of watch.
type Change struct {
	Path      string    `json:"path,omitempty"`
	PathOther []byte    `json:"path_base64,omitempty" doc:"in place of path, if that is not UTF-8"`
	From      string    `json:"from,omitempty" doc:"the path before a rename"`
	FromOther []byte    `json:"from_base64,omitempty" doc:"in place of from, if that is not UTF-8"`
	Time      time.Time `json:"time"`
}

var watchOps = map[fsops.WatchOp]string{
	fsops.WatchCreate:   "create",
	fsops.WatchWrite:    "write",
	fsops.WatchRemove:   "remove",
	fsops.WatchRename:   "rename",
	fsops.WatchChmod:    "chmod",
	fsops.WatchOverflow: "overflow",
}

// found is what a watch yields.
type found struct {
	event string
	fsops.WatchEvent
	err error
}

func (c *rawCall) watch(g *Gateway) error {
	o := fsops.WatchOptions{}
	if err := c.flags(map[string]*bool{"recursive": &o.Recursive, "ignore": &o.Ignore}); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(c)
	defer stop()
	changes := c.follow(ctx, o)
	closing := c.streams.closing.Done()
	var end <-chan time.Time
	for {
		select {
		case <-closing:
			if err := c.reconnect(); err != nil {
				return err
			}
			closing, end = nil, time.After(g.handover)
		case <-end:
			return nil
		case f, ok := <-changes:
			switch {
			case !ok || c.Err() != nil:
				return c.Err()
			case f.err != nil && !c.began:
				return f.err
			case f.err != nil:
				return c.event("error", g.problem(c, f.err))
			}
			if err := c.event(f.event, changeOf(f.WatchEvent)); err != nil {
				return err
			}
		case <-time.After(c.silence):
			if err := c.comment(); err != nil {
				return err
			}
		}
	}
}

// follow watches until ctx ends.
func (c *rawCall) follow(ctx context.Context, o fsops.WatchOptions) <-chan found {
	path, changes := c.query("path"), make(chan found)
	send := func(f found) bool {
		select {
		case changes <- f:
			return true
		case <-ctx.Done():
			return false
		}
	}
	o.Ready = func() { send(found{event: "ready", WatchEvent: fsops.WatchEvent{Path: path, Time: time.Now()}}) }
	go func() {
		defer close(changes)
		for event, err := range c.sandbox.Watch(ctx, path, o) {
			if !send(found{watchOps[event.Op], event, err}) || err != nil {
				return
			}
		}
	}()
	return changes
}

func changeOf(e fsops.WatchEvent) Change {
	out := Change{Time: e.Time}
	out.Path, out.PathOther = split(e.Path)
	out.From, out.FromOther = split(e.From)
	return out
}

// reconnect has the caller watch elsewhere, with little delay if it does so only at the end.
func (c *rawCall) reconnect() error {
	if !c.began {
		c.begin(eventsType)
	}
	if _, err := fmt.Fprintf(c.w, "retry: %d\n", reconnectAfter.Milliseconds()); err != nil {
		return err
	}
	return c.event("reconnect", Change{Time: time.Now()})
}

// event sends a server-sent event at once.
func (c *rawCall) event(name string, data any) error {
	if !c.began {
		c.begin(eventsType)
	}
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(c.w, "event: %s\ndata: %s\n\n", name, text); err != nil {
		return err
	}
	return http.NewResponseController(c.w).Flush()
}

// comment sends what keeps a stream of events open.
func (c *rawCall) comment() error {
	if !c.began {
		c.begin(eventsType)
	}
	if _, err := fmt.Fprint(c.w, ":\n\n"); err != nil {
		return err
	}
	return http.NewResponseController(c.w).Flush()
}
