package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/cmd/orchestrator/internal/console"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
)

// attachOptions says how to attach to a command.
type attachOptions struct {
	interactive bool
	fromNow     bool
	keys        console.DetachKeys
}

func attachCommand(a *app) *cobra.Command {
	var opts attachOptions
	cmd := &cobra.Command{
		Use:   "attach ID EXEC",
		Short: "Attach to a command in a sandbox",
		Long: `Attach prints the output of a command in a sandbox from the start, and exits with
the command's status. The command may run or have ended. Any number of attachments
get the same output. When you interrupt or terminate attach, the command runs on.

If the command runs in a terminal, this terminal shows it, beginning with its
present screen, and passes your keys on. ctrl-p ctrl-q leaves it running.

` + fmt.Sprintf(rawHelp, "attach to any other command") + `
` + execIDHelp + "\n\n" + exitHelp,
		Example: `  orchestrator attach job-1 6d1f9a04c2be
  echo yes | orchestrator attach job-1 6d1f -i`,
		Args:              takes(2, 2),
		ValidArgsFunction: a.completeExecs(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.open(cmd.Context(), args[0], func(sandbox *launcher.Sandbox) error {
				return a.attach(cmd.Context(), sandbox, args[1], opts)
			})
		},
	}
	cmd.Flags().BoolVarP(&opts.interactive, "interactive", "i", false, "pass standard input to the command, if it was started with -i")
	cmd.Flags().BoolVar(&opts.fromNow, "from-now", false, "print only the output that follows from now on")
	a.rawFlag(cmd)
	keysFlag(cmd, &opts.keys)
	return cmd
}

func (a *app) attach(ctx context.Context, sandbox *launcher.Sandbox, name string, opts attachOptions) error {
	info, err := findExec(ctx, sandbox, name)
	if err != nil {
		return err
	}
	var at podapi.AttachOptions
	var t *console.Console
	if info.Terminal && info.Status == nil && !a.json() {
		t = a.newConsole(opts.keys)
	}
	switch {
	case opts.fromNow:
		at.StdoutOffset, at.StderrOffset = info.Stdout, info.Stderr
	case t != nil:
		at.Screen = new(t.Size())
	}
	var in io.Reader
	if opts.interactive {
		in = a.in
	}
	return unclear(a.runAttached(ctx, sandbox, in, t, func(own console.Streams) (string, *podapi.Process, error) {
		at.Stdin, at.Stdout, at.Stderr = own.In, own.Out, own.Err
		p, err := sandbox.Attach(ctx, info.ID, at)
		if err == nil && at.Stdin != nil && !p.HasStdin() {
			a.note("exec %s takes no input: standard input is lost", short(info.ID))
		}
		return info.ID, p, err
	}))
}
