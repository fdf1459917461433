package agentsandbox

import (
	"context"
	"errors"
	"net/http"
	"path"
	"strings"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/internal/agentwrites"
	"github.com/podagent/podagent/pkg/gateway/internal/faces"
	"github.com/podagent/podagent/pkg/launcher"
)

// The kinds of events of files.
const (
	eventCreate = 1
	eventWrite  = 2
	eventRemove = 3
	eventRename = 4
	eventChmod  = 5
	eventError  = 6 // the last one
)

var eventKinds = map[fsops.WatchOp]int64{
	fsops.WatchCreate: eventCreate, fsops.WatchWrite: eventWrite, fsops.WatchRemove: eventRemove,
	fsops.WatchRename: eventRename, fsops.WatchChmod: eventChmod,
}

// errClosing ends watches, which go on with another gateway.
var errClosing = gateway.Fail(http.StatusServiceUnavailable, "closing", "this gateway ends: watch again, and another one goes on")

// watch answers with what happens in a directory as it comes. The header of the answer comes when all is
// watched.
func (c *grpcCall) watch(message []byte) error {
	in, err := parseWatch(message)
	if err != nil {
		return err
	}
	return c.on(gateway.Detail{Paths: []string{in.path}}, func(s *launcher.Sandbox) error {
		dir, err := within(s.Workdir, in.path)
		if err != nil {
			return err
		}
		a, err := s.Stat(c.ctx, dir)
		if err != nil {
			return err
		}
		if !a.IsDir() {
			return faces.BadRequest("the path is no directory")
		}
		ctx, cancel := context.WithCancelCause(c.ctx)
		defer cancel(nil)
		defer context.AfterFunc(c.Closing(), func() { cancel(errClosing) })()
		w := &watch{call: c, root: path.Clean(s.Workdir), dir: dir}
		for e, err := range s.Watch(ctx, dir, fsops.WatchOptions{Recursive: in.recursive, Ready: c.stream.Begin}) {
			if errors.Is(context.Cause(ctx), errClosing) {
				return errClosing
			}
			if err != nil {
				return err
			}
			if over, err := w.tell(e); over || err != nil {
				return err
			}
		}
		return nil
	})
}

// watch is one of a directory.
type watch struct {
	call      *grpcCall
	root, dir string
}

// tell sends an event, and reports whether it is the last one.
func (w *watch) tell(e fsops.WatchEvent) (over bool, err error) {
	switch {
	case e.Op == fsops.WatchOverflow:
		return true, w.send(&fileEvent{kind: eventError, fault: "changes were lost, because there were too many: list the files, and watch again"})
	case e.Op == fsops.WatchRemove && e.Path == w.dir:
		return true, w.send(&fileEvent{kind: eventError, fault: "the directory was removed"})
	case agentwrites.Passing(e.Path), agentwrites.Unnamed(e.Path) && e.Op != fsops.WatchCreate && e.Op != fsops.WatchRename:
		return false, nil
	case e.Op == fsops.WatchRename && agentwrites.Passing(e.From):
		return false, w.send(&fileEvent{kind: eventCreate, path: w.below(e.Path)})
	}
	told := &fileEvent{kind: eventKinds[e.Op], path: w.below(e.Path)}
	if e.From != "" {
		told.old = w.below(e.From)
	}
	return false, w.send(told)
}

func (w *watch) send(e *fileEvent) error { return w.call.send(e.encode()) }

// below returns the name of a file below the root.
func (w *watch) below(name string) string {
	return strings.TrimPrefix(strings.TrimPrefix(name, w.root), "/")
}
