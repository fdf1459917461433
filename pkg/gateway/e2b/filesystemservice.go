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

// inSandbox returns a method that does something with paths in the sandbox.
func inSandbox[Req, Res any](operation string, paths func(*Req) []string, do func(context.Context, *launcher.Sandbox, *Req) (*Res, error)) func(context.Context, *Req) (*Res, error) {
	return func(ctx context.Context, in *Req) (out *Res, err error) {
		c := callOf(ctx)
		err = c.on(ctx, "filesystem/"+operation, userOf(requestHeader(ctx)), gateway.Detail{Paths: paths(in)}, func(s *launcher.Sandbox) (err error) {
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
	err := c.on(ctx, "filesystem/WatchDir", userOf(requestHeader(ctx)), gateway.Detail{Paths: []string{in.Path}}, func(s *launcher.Sandbox) error {
		return watchDir(ctx, s, in, out)
	})
	if context.Cause(ctx) == errClosing {
		err = errClosing
	}
	return c.connectFailure(ctx, err)
}

func createWatcher(ctx context.Context, in *watchRequest) (*watcherID, error) {
	c := callOf(ctx)
	out, err := c.createWatcher(ctx, in)
	return out, c.connectFailure(ctx, err)
}

func (c *envdCall) createWatcher(ctx context.Context, in *watchRequest) (*watcherID, error) {
	if err := c.begin(ctx, "filesystem/CreateWatcher", gateway.Detail{Paths: []string{in.Path}}); err != nil {
		return nil, err
	}
	s, release, err := c.Open(ctx, c.Sandbox(), true)
	if err != nil {
		return nil, err
	}
	if err := checkUser(ctx, s, userOf(requestHeader(ctx))); err != nil {
		release(err)
		return nil, err
	}
	return c.face.watchers.create(ctx, c.Closing(), c.watcher(""), s, in, release)
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
