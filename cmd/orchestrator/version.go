package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

func versionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "version [ID]",
		Short:             "Print the version; with ID also that of the sandbox's agent",
		Args:              takes(0, 1),
		ValidArgsFunction: a.completeIDs(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := a.printVersion("orchestrator", wire.Version(), wire.ProtocolMajor, wire.ProtocolMinor)
			if err != nil || len(args) == 0 {
				return err
			}
			return a.open(cmd.Context(), args[0], func(sandbox *launcher.Sandbox) error {
				return a.agentVersion(cmd.Context(), sandbox)
			})
		},
	}
}

func (a *app) agentVersion(ctx context.Context, sandbox *launcher.Sandbox) error {
	info, err := sandbox.Info(ctx)
	if info.Version == "" && err != nil {
		return err
	}
	// An incompatible agent still tells its version.
	if printErr := a.printVersion("podagent", info.Version, info.ProtocolMajor, info.ProtocolMinor); printErr != nil {
		return printErr
	}
	return err
}

func (a *app) printVersion(program, version string, major, minor int) error {
	return a.print(struct {
		Program  string `json:"program"`
		Version  string `json:"version"`
		Protocol string `json:"protocol"`
	}{program, version, fmt.Sprintf("%d.%d", major, minor)},
		fmt.Sprintf("%s %s (protocol %d.%d)\n", program, a.terminal.Name(version), major, minor))
}
