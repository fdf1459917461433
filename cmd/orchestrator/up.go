package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/cmd/internal/render"
	"github.com/podagent/podagent/pkg/launcher"
)

func upCommand(a *app) *cobra.Command {
	var spec launcher.Spec
	cmd := &cobra.Command{
		Use:   "up ID",
		Short: "Launch a sandbox, or adopt the one that has this id",
		Long: `Up launches a sandbox with this id, and prints the id once its agent answers. A
sandbox that exists is adopted with its files, and its agent is started again if
it has ended; the environment given by --env replaces the one that it had. The
sandbox stays until "orchestrator down".`,
		Example:           "  orchestrator up job-1 --env LANG=C.UTF-8",
		Args:              takes(1, 1),
		ValidArgsFunction: a.completeIDs(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			spec.ID, spec.OnClose = args[0], launcher.CloseKeep
			return a.up(cmd.Context(), spec)
		},
	}
	specFlags(cmd, &spec)
	return cmd
}

// specFlags are the flags of the verbs that make a sandbox.
func specFlags(cmd *cobra.Command, spec *launcher.Spec) {
	flags := cmd.Flags()
	flags.VarP((*env)(&spec.Env), "env", "e", "add to the environment of the sandbox's commands, in place of any set before; may be repeated")
	flags.StringVarP(&spec.Workdir, "workdir", "w", "", "the absolute `DIR` where relative paths start in a new sandbox (default a directory of its own)")
}

func (a *app) up(ctx context.Context, spec launcher.Spec) error {
	if spec.ID == "" {
		return usagef("the id of a sandbox must not be empty")
	}
	return a.launch(ctx, spec, func(sandbox *launcher.Sandbox) error {
		if spec.Workdir != "" && sandbox.Workdir != spec.Workdir {
			a.note("sandbox %s existed already and keeps its workdir %s", quote(sandbox.ID), quote(sandbox.Workdir))
		}
		return a.print(struct {
			ID      string         `json:"id"`
			State   launcher.State `json:"state"`
			Workdir render.Text    `json:"workdir"`
			Created bool           `json:"created"`
		}{sandbox.ID, launcher.Running, render.Text(sandbox.Workdir), sandbox.Created}, sandbox.ID+"\n")
	})
}
