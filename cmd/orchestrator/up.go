package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/cmd/internal/render"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi/wayout"
)

func upCommand(a *app) *cobra.Command {
	var flags *sandboxFlags
	cmd := &cobra.Command{
		Use:   "up ID",
		Short: "Launch a sandbox, or adopt the one with this id",
		Long: `Up launches a sandbox with this id, and prints the id once its agent answers. If
the sandbox exists, up adopts it with its files: --env and --protect replace its
values, and up names every other difference from the flags. The sandbox stays until
"orchestrator down". A pod ends at its active deadline at the latest.

With --git, the workdir gets a work tree of a repository. Up brings an existing work
tree up to date and keeps local changes.

The verbs for files and the tools do not change paths that --protect matches, but
commands can. The directories of --read-only are mounted read-only in a pod, so that
commands cannot change them either.

With --egress, commands have no way out but a proxy in the sandbox, which leads nowhere
until "orchestrator egress", or exec with --allow-host, serves it. Up itself serves only
the checkout of --git, whose host needs no --allow-host: that and --credential stand
for --egress auto here.`,
		Example: `  orchestrator up job-1 --env LANG=C.UTF-8
  orchestrator up job-1 --requests cpu=500m,memory=1Gi --limits memory=4Gi
  orchestrator up job-1 --protect .policies --protect '**/*.lock' --read-only /opt/rules:/workspace/.rules
  orchestrator up job-1 --git https://example.com/repository.git --git-ref main`,
		Args:              takes(1, 1),
		ValidArgsFunction: a.completeIDs(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.local.ephemeral.CheckNext(args); err != nil {
				return usageError{err}
			}
			if err := flags.egress.checkUp(cmd.Context(), a); err != nil {
				return err
			}
			spec, err := flags.build(a)
			if err != nil {
				return err
			}
			spec.ID, spec.OnClose = args[0], launcher.CloseKeep
			return a.up(cmd.Context(), spec, &flags.egress)
		},
	}
	flags = specFlags(cmd)
	flags.egress.defineServe(cmd)
	return cmd
}

func (a *app) up(ctx context.Context, spec launcher.Spec, e *egressFlags) error {
	if spec.ID == "" {
		return usagef("the id of a sandbox must not be empty")
	}
	return a.launch(ctx, spec, e, func(sandbox *launcher.Sandbox) error {
		if !sandbox.Created && spec.Workdir != "" && sandbox.Workdir != spec.Workdir {
			a.note("sandbox %s exists already and keeps its workdir %s", quote(sandbox.ID), quote(sandbox.Workdir))
		}
		if spec.Egress.Mode == wayout.Auto { // whoever names advisory knows
			a.sayLevel(sandbox)
		}
		if sandbox.Egress.Level != wayout.Open && !sandbox.Egress.Served {
			a.note("commands of sandbox %s reach nothing by its proxy until \"orchestrator egress %[1]s\" serves it, or exec with --allow-host", quote(sandbox.ID))
		}
		return a.print(struct {
			ID      string         `json:"id"`
			State   launcher.State `json:"state"`
			Workdir render.Text    `json:"workdir"`
			Created bool           `json:"created"`
			Pod     string         `json:"pod,omitempty"`
			Warm    bool           `json:"warm,omitempty"`
			Cold    string         `json:"cold,omitempty"`
			Drift   []string       `json:"drift,omitempty"`
			// Isolation is nil for a pod.
			Isolation *isolated `json:"isolation,omitempty"`
		}{
			sandbox.ID, launcher.Running, render.Text(sandbox.Workdir), sandbox.Created, sandbox.PodName(),
			sandbox.Start.Warm, sandbox.Start.Cold, sandbox.Drift, newIsolated(sandbox.Isolation),
		}, sandbox.ID+"\n")
	})
}
