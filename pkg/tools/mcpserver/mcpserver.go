// Package mcpserver serves the tools of a session to clients of the Model
// Context Protocol, with its official SDK:
//
//	server := mcpserver.New(sandbox, session)
//	err := mcpserver.Run(ctx, server, &mcp.StdioTransport{})
//
// Each tool becomes a tool of the protocol with the same name, schema and answers.
// Clients that ask for progress get the output of a command while it runs.
// Cancelling a request ends its command. The files of the sandbox are resources:
// file:///workspace/go.mod is its /workspace/go.mod. The session's secrets are
// redacted everywhere.
//
// A [Handler] serves many clients over HTTP, each with its own server:
//
//	handler, err := mcpserver.NewHandler(func() (*mcp.Server, func(), error) {
//		sandbox, err := launcher.Lazy(l, launcher.Spec{})
//		if err != nil {
//			return nil, nil, err
//		}
//		server := mcpserver.New(sandbox, tools.New(sandbox, tools.Options{}, tools.Coding()...))
//		return server, func() { sandbox.Close() }, nil
//	}, mcpserver.HandlerOptions{Token: token})
package mcpserver

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi/wire"
	"github.com/podagent/podagent/pkg/tools"
)

// New returns a server for the session's tools and the sandbox's files. It uses
// them only when a client does, so a lazy sandbox ([launcher.Lazy]) is launched
// only if needed. The caller keeps both, and closes them. With versions, the server
// speaks only these of the protocol.
func New(sandbox *launcher.Sandbox, session *tools.Session, versions ...string) *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "podagent", Title: "A sandbox", Version: wire.Version()}, &mcp.ServerOptions{
		// The tools never change, and there is no log for clients.
		Capabilities:              &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}, Resources: &mcp.ResourceCapabilities{}},
		SupportedProtocolVersions: versions,
	})
	for _, spec := range session.Specs() {
		server.AddTool(toolOf(spec), func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return call(ctx, session, r)
		})
	}
	server.AddResourceTemplate(&mcp.ResourceTemplate{
		Name: "file", Title: "A file of the sandbox", URITemplate: "file://{+path}",
		Description: "The content of the file with this absolute path.",
	}, files{sandbox, session}.read)
	return server
}

func toolOf(spec tools.Spec) *mcp.Tool {
	return &mcp.Tool{
		Name: spec.Name, Title: spec.Title, Description: spec.Description, InputSchema: spec.InputSchema,
		Annotations: &mcp.ToolAnnotations{
			ReadOnlyHint: spec.ReadOnly, IdempotentHint: spec.Idempotent,
			DestructiveHint: new(spec.Destructive), OpenWorldHint: new(spec.OpenWorld),
		},
	}
}

// call makes a call of a tool. An error, which is sent as an error of the
// protocol, means that the sandbox is lost or the request was cancelled.
func call(ctx context.Context, session *tools.Session, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	request := tools.Call{Name: r.Params.Name, Input: r.Params.Arguments}
	if token := r.Params.GetProgressToken(); token != nil {
		p := newProgress(ctx, r.Session, token)
		defer p.end()
		request.Output = p
	}
	result, err := session.Do(ctx, request)
	if err != nil {
		return nil, err
	}
	out := &mcp.CallToolResult{IsError: result.IsError, Content: []mcp.Content{}}
	for _, c := range result.Content {
		if c.MediaType == "" {
			out.Content = append(out.Content, &mcp.TextContent{Text: c.Text})
		} else {
			out.Content = append(out.Content, &mcp.ImageContent{MIMEType: c.MediaType, Data: c.Data})
		}
	}
	return out, nil
}
