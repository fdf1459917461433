package mcpserver

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Run serves one client over a transport until the client leaves or ctx ends, and
// then ends all running calls. If ctx ended, Run returns its error. In contrast,
// the server's own Run waits for running calls when ctx ends.
func Run(ctx context.Context, server *mcp.Server, transport mcp.Transport) error {
	server.AddReceivingMiddleware(endingWith(ctx))
	return server.Run(ctx, transport)
}

// endingWith makes requests end when ctx does.
func endingWith(ctx context.Context) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(request context.Context, method string, r mcp.Request) (mcp.Result, error) {
			request, cancel := context.WithCancelCause(request)
			defer cancel(nil)
			stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
			defer stop()
			return next(request, method, r)
		}
	}
}
