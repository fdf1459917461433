package main

import (
	"context"
	"errors"
	"io"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/tools"
	"github.com/podagent/podagent/pkg/tools/mcpserver"
)

func mcpCommand(a *app) *cobra.Command {
	var from *sandboxFlags
	var id string
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Serve a sandbox's tools to a client of the Model Context Protocol",
		Long: `Mcp serves the tools that "orchestrator tool list" lists, and the files of a
sandbox as resources, by the Model Context Protocol over standard input and
output, until the input ends. The sandbox is launched by the first call that
needs it, and is deleted at the end unless --id names one, which is adopted if it
is there, and stays.

A client's configuration names this program as the command of a server, with
"mcp" as its argument.`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("id") && id == "" {
				return usagef("the id of a sandbox must not be empty")
			}
			spec, err := from.build(a)
			if err != nil {
				return err
			}
			spec.ID = id
			return a.mcp(cmd.Context(), spec)
		},
	}
	cmd.Flags().StringVar(&id, "id", "", "the `ID` of the sandbox (default a new one, deleted at the end)")
	from = specFlags(cmd)
	return cmd
}

func (a *app) mcp(ctx context.Context, spec launcher.Spec) error {
	l, err := a.launcher()
	if err != nil {
		return err
	}
	sandbox, err := launcher.Lazy(l, spec)
	if err != nil {
		return err
	}
	return within(sandbox, func(sandbox *launcher.Sandbox) error {
		session := tools.New(sandbox, tools.Options{}, tools.Coding()...)
		server := mcpserver.New(sandbox, session)
		err := server.Run(ctx, &mcp.IOTransport{Reader: io.NopCloser(a.in), Writer: keepOpen{a.out}})
		return errors.Join(err, session.Close(context.WithoutCancel(ctx)))
	})
}

// keepOpen is standard output, which the program still has a use for.
type keepOpen struct{ io.Writer }

func (keepOpen) Close() error { return nil }
