package main

import (
	"context"
	"errors"
	"io"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/tools/mcpserver"
)

const mcpHelp = `Mcp serves the tools that "orchestrator tool list" lists, and the files of a
sandbox as resources, by the Model Context Protocol. The sandbox is launched by
the first call that needs it, and is deleted at the end unless --id names one,
which is adopted if it is there, and stays.

With the kubernetes backend it first checks, as "orchestrator doctor" does but
without making a pod, what sandboxes need. What is missing ends it, with what to
do; what they can do without is a warning on standard error.

Without --http there is one client, over standard input and output, until the
input ends. The client's configuration has this program as the command of a
server, with "mcp" as its argument:

  {"mcpServers": {"sandbox": {"command": "orchestrator", "args": ["mcp"]}}}

With --http there are many, over streamable HTTP, at the URL that is printed.
Each has a sandbox of its own, or all have that of --id. A client's sandbox is
deleted when the client ends its session, is silent for --idle-timeout, or this
program ends. Clients show a token, as "Authorization: Bearer TOKEN": that of
--token-file, or of PODAGENT_MCP_TOKEN in the environment, or else one that is
made up and printed to standard error.

  {"mcpServers": {"sandbox": {"type": "http", "url": "http://127.0.0.1:8931/mcp",
    "headers": {"Authorization": "Bearer ..."}}}}

It speaks no TLS, and so listens on the loopback only, unless --allow-remote is
given: the token and all that is said can be read on the way, if nothing in
front of it speaks TLS. Requests that pages of browsers make are refused, but
for those of --allow-origin.`

// mcpOptions say how to serve.
type mcpOptions struct {
	spec  launcher.Spec
	tools toolFlags
	http  httpFlags
}

func mcpCommand(a *app) *cobra.Command {
	var from *sandboxFlags
	var id string
	var opts mcpOptions
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Serve a sandbox's tools to clients of the Model Context Protocol",
		Long:  mcpHelp,
		Example: `  orchestrator mcp --id job-1
  orchestrator mcp --http 127.0.0.1:8931 --token-file ~/.config/podagent/token
  orchestrator mcp --command npm=/usr/bin/npm --secret NPM_TOKEN=file:/run/secrets/npm`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("id") && id == "" {
				return usagef("the id of a sandbox must not be empty")
			}
			var err error
			if opts.spec, err = from.build(a); err != nil {
				return err
			}
			opts.spec.ID = id
			if err := errors.Join(opts.http.check(), opts.tools.check(cmd.Context())); err != nil {
				return err
			}
			return a.mcp(cmd.Context(), &opts)
		},
	}
	cmd.Flags().StringVar(&id, "id", "", "the `ID` of the sandbox (default a new one, deleted at the end)")
	from = specFlags(cmd)
	opts.tools.define(cmd, true)
	opts.http.define(cmd)
	return cmd
}

func (a *app) mcp(ctx context.Context, opts *mcpOptions) error {
	l, err := a.launcher()
	if err != nil {
		return err
	}
	if err := a.preflight(ctx, l, opts.spec); err != nil {
		return err
	}
	if opts.http.address != "" {
		return a.mcpHTTP(ctx, l, opts)
	}
	sandbox, err := launcher.Lazy(l, opts.spec)
	if err != nil {
		return err
	}
	a.serversIsolateNothing()
	return within(sandbox, func(sandbox *launcher.Sandbox) error {
		session := opts.tools.session(sandbox)
		server := mcpserver.New(sandbox, session)
		err := mcpserver.Run(ctx, server, &mcp.IOTransport{Reader: io.NopCloser(a.in), Writer: keepOpen{a.out}})
		return errors.Join(err, session.Close(context.WithoutCancel(ctx)))
	})
}

// serversIsolateNothing says so of sandboxes that are launched later, by others.
func (a *app) serversIsolateNothing() {
	if a.backend.Value == onThisHost {
		a.note("the local backend isolates nothing: what runs in its sandboxes can do what you can")
	}
}

// keepOpen is standard output, which the program still has a use for.
type keepOpen struct{ io.Writer }

func (keepOpen) Close() error { return nil }
