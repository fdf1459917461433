package e2b

import (
	"context"
	"net/http"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher"
)

// addFilesystem adds envd's service filesystem.Filesystem.
func addFilesystem(mux *http.ServeMux) {
	const service = "/filesystem.Filesystem/"
	unary(mux, service+"Stat", inSandbox("Stat", (*pathRequest).paths, statEntry))
	unary(mux, service+"MakeDir", inSandbox("MakeDir", (*pathRequest).paths, makeDir))
	unary(mux, service+"Move", inSandbox("Move", (*moveRequest).paths, move))
	unary(mux, service+"ListDir", inSandbox("ListDir", (*listRequest).paths, listDir))
	unary(mux, service+"Remove", inSandbox("Remove", (*pathRequest).paths, remove))
	serverStream(mux, service+"WatchDir", serveWatch)
	unary(mux, service+"CreateWatcher", createWatcher)
	unary(mux, service+"GetWatcherEvents", onWatcher("GetWatcherEvents", (*watchers).events))
	unary(mux, service+"RemoveWatcher", onWatcher("RemoveWatcher", (*watchers).close))
}

func (in *pathRequest) paths() []string { return []string{in.Path} }
func (in *listRequest) paths() []string { return []string{in.Path} }
func (in *moveRequest) paths() []string { return []string{in.Source, in.Destination} }

// fileTask is what the call of a context does to files.
func fileTask(ctx context.Context, method string, paths ...string) task {
	return task{operation: "filesystem/" + method, detail: gateway.Detail{Paths: paths}, user: userOf(requestHeader(ctx))}
}

// inSandbox returns a method that does something with paths in the sandbox.
func inSandbox[Req, Res any](operation string, paths func(*Req) []string, do func(context.Context, *launcher.Sandbox, *Req) (*Res, error)) func(context.Context, *Req) (*Res, error) {
	return func(ctx context.Context, in *Req) (out *Res, err error) {
		c := callOf(ctx)
		err = c.do(ctx, fileTask(ctx, operation, paths(in)...), func(s *launcher.Sandbox) (err error) {
			out, err = do(ctx, s, in)
			return err
		})
		return out, c.connectFailure(ctx, err)
	}
}

// serveWatch sends the events of a directory, until the caller leaves or the gateway is about to end.
func serveWatch(ctx context.Context, in *watchRequest, out *events[watchResponse]) error {
	c := callOf(ctx)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.Closing(), func() { cancel(errClosing) })()
	err := c.do(ctx, fileTask(ctx, "WatchDir", in.Path), func(s *launcher.Sandbox) error {
		return watchDir(ctx, s, in, out)
	})
	if context.Cause(ctx) == errClosing {
		err = errClosing
	}
	return c.connectFailure(ctx, err)
}

// createWatcher begins to watch a directory, which goes on after the call.
func createWatcher(ctx context.Context, in *watchRequest) (*watcherID, error) {
	c, t, w := callOf(ctx), fileTask(ctx, "CreateWatcher", in.Path), &watcher{}
	w.life, w.stop = c.Lasting(ctx)
	out, err := c.face.watchers.create(ctx, c.watcher(""), w, func(ready func() error) error {
		return c.do(w.life, t, func(s *launcher.Sandbox) error {
			followed, err := newWatch(w.life, s, in)
			if err != nil {
				return err
			}
			return followed.run(w.life, ready, w.tell)
		})
	})
	return out, c.connectFailure(ctx, err)
}

func (c *envdCall) watcher(id string) watcherKey { return watcherKey{c.Tenant(), c.Sandbox(), id} }

// onWatcher returns a method on a watcher. It needs no sandbox, also if that has ended.
func onWatcher[Res any](operation string, do func(*watchers, watcherKey) (*Res, error)) func(context.Context, *watcherID) (*Res, error) {
	return func(ctx context.Context, in *watcherID) (*Res, error) {
		c := callOf(ctx)
		err := c.begin(ctx, "filesystem/"+operation, gateway.Detail{})
		if err != nil {
			return nil, c.connectFailure(ctx, err)
		}
		out, err := do(&c.face.watchers, c.watcher(in.ID))
		return out, c.connectFailure(ctx, err)
	}
}
