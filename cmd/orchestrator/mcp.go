package main

import (
	"context"
	"errors"
	"io"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/podagent/podagent/cmd/orchestrator/internal/settings"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/tools/mcpserver"
)

const mcpHelp = `Mcp serves a sandbox by the Model Context Protocol: the tools that "orchestrator tool
list" lists, and its files as resources. The first call that needs the sandbox
launches it. At the end mcp deletes it, unless --id names a sandbox: mcp adopts that
one if it exists, and leaves it there.

With --dialect claude-code the tools have the names, parameters and answers of those of
Claude Code: an agent of the Claude Agent SDK then works in the sandbox with toolAliases.

With --checkpoint-tools there are tools by which the model keeps states of the workdir, and
goes back to them: Checkpoint, Checkpoints, Diff and Restore.

With the kubernetes backend, mcp first checks what sandboxes need, as "orchestrator
doctor" does but without making a pod. If something necessary is missing, mcp says
what to do and exits. Anything else is a warning on standard error.

With --allow-host or --credential, mcp serves the way out of its sandboxes, and says on
standard error which hosts were denied: see "orchestrator egress". While another program
serves that of a sandbox, mcp stands by and says so.

Without --http, mcp serves one client over standard input and output, until the input
ends. In the client's configuration, name this program as the command of a server,
with "mcp" as its argument:

  {"mcpServers": {"sandbox": {"command": "orchestrator", "args": ["mcp"]}}}

With --http, mcp serves many clients over streamable HTTP, at the URL that it prints.
Each client has a sandbox of its own, or all share that of --id. Mcp deletes a
client's sandbox when the client ends its session or is silent for --idle-timeout,
and when mcp itself ends. Clients must send a token as "Authorization: Bearer TOKEN".
It is that of --token-file, which other users must not be able to read, or of
PODAGENT_MCP_TOKEN in the environment; without either, mcp makes one up and prints it
to standard error.

  {"mcpServers": {"sandbox": {"type": "http", "url": "http://127.0.0.1:8931/mcp",
    "headers": {"Authorization": "Bearer ..."}}}}

Mcp speaks no TLS. It therefore listens on the loopback only, unless you give
--allow-remote: put a server with TLS in front of it, or others on the way can read
the token and everything else. Mcp refuses requests from web pages, except those of
--allow-origin.`

// mcpOptions say how to serve.
type mcpOptions struct {
	spec   launcher.Spec
	egress *egressFlags
	tools  toolFlags
	http   httpFlags
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
  orchestrator mcp --dialect claude-code
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
			opts.spec.ID, opts.egress = id, &from.egress
			if err := errors.Join(opts.http.check(), from.egress.check(cmd.Context(), a)); err != nil {
				return err
			}
			opts.tools.redact = from.egress.providers()
			if err := opts.tools.check(cmd.Context()); err != nil {
				return err
			}
			if a.backend.Value == onThisHost && !settings.Given(cmd.Flag("log-level")) {
				a.logLevel.Value = "warn" // of sandboxes that nothing isolates
			}
			return a.mcp(cmd.Context(), &opts)
		},
	}
	cmd.Flags().StringVar(&id, "id", "", "the `ID` of the sandbox (default a new one, deleted at the end)")
	from = specFlags(cmd)
	from.egress.defineServe(cmd)
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
	served := a.served(l, opts.egress)
	defer served.end()
	sandbox, err := launcher.Lazy(served, opts.spec)
	if err != nil {
		return err
	}
	a.tellIsolationOfServers()
	return within(sandbox, func(sandbox *launcher.Sandbox) error {
		session := opts.tools.session(sandbox)
		server := mcpserver.New(sandbox, session)
		err := mcpserver.Run(ctx, server, &mcp.IOTransport{Reader: io.NopCloser(a.in), Writer: keepOpen{a.out}})
		return errors.Join(err, session.Close(context.WithoutCancel(ctx)))
	})
}

// keepOpen is standard output, which the program still needs after the server has
// ended.
type keepOpen struct{ io.Writer }

func (keepOpen) Close() error { return nil }
