package e2b

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/internal/agentwrites"
	"github.com/podagent/podagent/pkg/gateway/internal/faces"
	"github.com/podagent/podagent/pkg/launcher"
)

// The messages of watches.
type (
	watchRequest struct {
		Path      string `json:"path"`
		Recursive bool   `json:"recursive"`
	}
	watchResponse struct {
		Start      *struct{}  `json:"start,omitempty"`
		Filesystem *fileEvent `json:"filesystem,omitempty"`
		Keepalive  *struct{}  `json:"keepalive,omitempty"`
	}
	fileEvent struct {
		Name string `json:"name"` // below the directory that is watched
		Type string `json:"type"`
	}
)

// The types of events.
const (
	eventCreate = "EVENT_TYPE_CREATE"
	eventWrite  = "EVENT_TYPE_WRITE"
	eventRemove = "EVENT_TYPE_REMOVE"
	eventRename = "EVENT_TYPE_RENAME" // of the old name; the new one has a create
	eventChmod  = "EVENT_TYPE_CHMOD"
)

// errLost ends a watch: E2B has no event for it.
var errLost = gateway.Fail(http.StatusConflict, "overflow", "changes were lost, because there were too many: list the files, and watch again")

// watch follows what happens in a directory, until ctx ends or the directory is gone.
type watch struct {
	sandbox   *launcher.Sandbox
	dir       string
	recursive bool
}

// newWatch returns a watch of a directory that is there.
func newWatch(ctx context.Context, s *launcher.Sandbox, in *watchRequest) (*watch, error) {
	name, err := absolute(s, in.Path)
	if err != nil {
		return nil, err
	}
	a, err := s.Stat(ctx, name)
	if err == nil && !a.IsDir() {
		err = faces.BadRequest("%s is no directory", name)
	}
	return &watch{s, name, in.Recursive}, err
}

// run calls ready when everything is watched, and then tell with each event.
func (w *watch) run(ctx context.Context, ready func() error, tell func(*fileEvent) error) error {
	var failed error
	options := fsops.WatchOptions{Recursive: w.recursive, Ready: func() { failed = ready() }}
	for e, err := range w.sandbox.Watch(ctx, w.dir, options) {
		if failed != nil || err != nil {
			return errors.Join(failed, err)
		}
		told, err := w.eventsOf(ctx, e)
		for _, event := range told {
			if err := tell(event); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
	return failed
}

// eventsOf returns an event as E2B has it. A file that appears with its content, as the agent writes
// them, has been written, too.
func (w *watch) eventsOf(ctx context.Context, e fsops.WatchEvent) ([]*fileEvent, error) {
	if e.Op == fsops.WatchOverflow {
		return nil, errLost
	}
	var events []*fileEvent
	add := func(name, kind string) {
		if !agentwrites.Passing(name) {
			events = append(events, &fileEvent{w.below(name), kind})
		}
	}
	switch e.Op {
	case fsops.WatchRename:
		add(e.From, eventRename)
		fallthrough
	case fsops.WatchCreate:
		add(e.Path, eventCreate)
		if w.hasContent(ctx, e.Path) {
			add(e.Path, eventWrite)
		}
	default:
		if !agentwrites.Unnamed(e.Path) {
			add(e.Path, eventTypes[e.Op])
		}
	}
	return events, nil
}

var eventTypes = map[fsops.WatchOp]string{
	fsops.WatchWrite:  eventWrite,
	fsops.WatchRemove: eventRemove,
	fsops.WatchChmod:  eventChmod,
}

func (w *watch) hasContent(ctx context.Context, name string) bool {
	if agentwrites.Passing(name) {
		return false
	}
	a, err := w.sandbox.Lstat(ctx, name)
	return err == nil && a.Mode.IsRegular() && a.Size > 0
}

// below returns the name of a file below the directory.
func (w *watch) below(name string) string {
	rest, ok := strings.CutPrefix(name, w.dir)
	if rest = strings.TrimPrefix(rest, "/"); !ok || rest == "" {
		return "."
	}
	return faces.Text(rest)
}

// watchDir sends the events of a directory as they come.
func watchDir(ctx context.Context, s *launcher.Sandbox, in *watchRequest, out *events[watchResponse]) error {
	w, err := newWatch(ctx, s, in)
	if err != nil {
		return err
	}
	ready := func() error {
		defer out.keepAlive(&watchResponse{Keepalive: &struct{}{}})
		return out.send(&watchResponse{Start: &struct{}{}})
	}
	return w.run(ctx, ready, func(e *fileEvent) error { return out.send(&watchResponse{Filesystem: e}) })
}
