package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/cmd/orchestrator/internal/console"
	"github.com/podagent/podagent/pkg/launcher"
)

func runCommand(a *app) *cobra.Command {
	var from *sandboxFlags
	var id string
	var opts execOptions
	var remove bool
	cmd := &cobra.Command{
		Use:   "run [flags] [--] COMMAND [ARG]...",
		Short: "Run a command in a new sandbox",
		Long: `Run launches a sandbox, or adopts the one that --id names, and runs a command in
it as exec does. The sandbox stays, unless you give --rm. Even then, run removes
only a sandbox that it launched itself. With --rm there are no detach keys, because
the command would end with its sandbox.

With --allow-host or --credential, run serves the way out of the sandbox while the
command runs, as exec does.

` + exitHelp,
		Example: "  orchestrator run --rm -- sh -c 'echo hello'",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("run needs a command: the usage is %q", cmd.UseLine())
			}
			if cmd.Flags().Changed("id") && id == "" {
				return usagef("the id of a sandbox must not be empty")
			}
			if err := a.local.ephemeral.CheckNext(args); err != nil {
				return usageError{err}
			}
			opts.egress = &from.egress
			if err := opts.check(cmd.Context(), a); err != nil {
				return err
			}
			spec, err := from.build(a)
			if err != nil {
				return err
			}
			spec.ID, spec.OnClose = id, launcher.CloseKeep
			if remove {
				spec.OnClose, opts.keys = launcher.CloseDelete, console.DetachKeys{}
			}
			return a.run(cmd.Context(), spec, args, opts)
		},
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false)
	flags.BoolVar(&remove, "rm", false, "remove the sandbox afterwards, if this run launched it")
	flags.StringVar(&id, "id", "", "the `ID` of the sandbox (default a new id)")
	from = specFlags(cmd)
	from.egress.defineServe(cmd)
	a.execFlags(cmd, &opts)
	return cmd
}

func (a *app) run(ctx context.Context, spec launcher.Spec, command []string, opts execOptions) error {
	return a.launch(ctx, spec, opts.egress, func(sandbox *launcher.Sandbox) error {
		// An adopted sandbox keeps its workdir. This command runs in the requested one
		// in either case. That of a new one may have another name in it.
		if opts.dir = spec.Workdir; sandbox.Created {
			opts.dir = ""
		}
		if spec.OnClose == launcher.CloseKeep {
			a.note("sandbox %s stays until \"orchestrator down %[1]s\"", quote(sandbox.ID))
		}
		return a.exec(ctx, sandbox, command, opts)
	})
}
