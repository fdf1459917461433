package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/tools/mcpserver"
)

// openSession begins a client's session.
type openSession = func() (server *mcp.Server, end func(), err error)

// mcpHTTP serves clients over HTTP until ctx ends. Each gets its own sandbox, or
// all share the one with the given id.
func (a *app) mcpHTTP(ctx context.Context, l launcher.Launcher, opts *mcpOptions) error {
	if opts.spec.ID == "" {
		return a.listenMCP(ctx, opts, a.inOwnSandbox(l, opts))
	}
	served := a.served(l, opts.egress)
	defer served.end()
	sandbox, err := launcher.Lazy(served, opts.spec)
	if err != nil {
		return err
	}
	return within(sandbox, func(sandbox *launcher.Sandbox) error {
		return a.listenMCP(ctx, opts, a.inSandbox(sandbox, opts))
	})
}

func (a *app) inOwnSandbox(l launcher.Launcher, opts *mcpOptions) openSession {
	return func() (*mcp.Server, func(), error) {
		served := a.served(l, opts.egress)
		sandbox, err := launcher.Lazy(served, opts.spec)
		if err != nil {
			return nil, nil, err
		}
		end := func() {
			defer served.end()
			a.noteOf(sandbox, sandbox.Close())
		}
		return mcpserver.New(sandbox, opts.tools.session(sandbox)), end, nil
	}
}

func (a *app) inSandbox(sandbox *launcher.Sandbox, opts *mcpOptions) openSession {
	return func() (*mcp.Server, func(), error) {
		session := opts.tools.session(sandbox)
		end := func() {
			ctx, cancel := context.WithTimeout(context.Background(), mcpSessionEnd)
			defer cancel()
			a.noteOf(sandbox, session.Close(ctx))
		}
		return mcpserver.New(sandbox, session), end, nil
	}
}

// noteOf prints an error of one sandbox while others go on.
func (a *app) noteOf(sandbox *launcher.Sandbox, err error) {
	if err != nil {
		a.note("sandbox %s: %s", quote(sandbox.ID), explain(&sandboxError{id: sandbox.ID, launching: true, err: a.marked(err)}))
	}
}

// mcpPath is the path at which servers usually serve the protocol.
const mcpPath = "/mcp"

// listenMCP serves clients. open begins their sessions.
func (a *app) listenMCP(ctx context.Context, opts *mcpOptions, open openSession) error {
	listener, err := listenAt(opts.http.flags.Lookup("http"), opts.http.listen)
	if err != nil {
		return err
	}
	options, err := opts.http.handler(ctx, a)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	handler, err := mcpserver.NewHandler(open, options)
	if err != nil {
		return errors.Join(usageError{err}, listener.Close())
	}
	a.tellIsolationOfServers()
	url := "http://" + listener.Addr().String() + mcpPath
	err = a.print(struct {
		URL string `json:"url"`
	}{url}, url+"\n")
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	return a.serveMCP(ctx, listener, handler)
}

func (a *app) serveMCP(ctx context.Context, listener net.Listener, handler *mcpserver.Handler) error {
	mux := http.NewServeMux()
	mux.Handle(mcpPath, handler)
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: requestHeaderTime, MaxHeaderBytes: requestHeaderBytes, IdleTimeout: idleConnTime,
		ErrorLog: slog.NewLogLogger(a.logger().Handler(), slog.LevelWarn),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	return errors.Join(err, endMCP(context.WithoutCancel(ctx), server, handler))
}

// endMCP ends the sessions, and with them their sandboxes.
func endMCP(ctx context.Context, server *http.Server, handler *mcpserver.Handler) error {
	ctx, cancel := context.WithTimeout(ctx, mcpEnd)
	defer cancel()
	err := errors.Join(handler.Shutdown(ctx), server.Shutdown(ctx))
	if err == nil {
		return nil
	}
	return fmt.Errorf("ending the sessions took longer than %v, and sandboxes may be left: %w", mcpEnd, errors.Join(err, server.Close()))
}
