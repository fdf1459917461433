package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/cmd/orchestrator/internal/console"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
)

// logsOptions says which output to print.
type logsOptions struct {
	follow         bool
	stdout, stderr bool // both if neither
}

func logsCommand(a *app) *cobra.Command {
	var opts logsOptions
	cmd := &cobra.Command{
		Use:   "logs ID EXEC",
		Short: "Print the output of a command in a sandbox",
		Long: `Logs prints the output of a command in a sandbox. The command may run or have
ended. The sandbox keeps the last 64 MiB of each command; logs says how much is
missing. It exits with 0, whatever the status of the command.

Logs prints both streams of the command, each to the same stream here. With --stdout
or --stderr it prints only that one, to standard output.

` + fmt.Sprintf(rawHelp, "logs") + "\n" + execIDHelp,
		Args:              takes(2, 2),
		ValidArgsFunction: a.completeExecs(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.open(cmd.Context(), args[0], func(sandbox *launcher.Sandbox) error {
				return a.logs(cmd.Context(), sandbox, args[1], opts)
			})
		},
	}
	a.rawFlag(cmd)
	cmd.Flags().BoolVarP(&opts.follow, "follow", "f", false, "continue until the command ends")
	cmd.Flags().BoolVar(&opts.stdout, "stdout", false, "print only standard output")
	cmd.Flags().BoolVar(&opts.stderr, "stderr", false, "print only standard error")
	return cmd
}

func (a *app) logs(ctx context.Context, sandbox *launcher.Sandbox, name string, opts logsOptions) error {
	info, err := findExec(ctx, sandbox, name)
	if err != nil {
		return err
	}
	at := podapi.AttachOptions{NoFollow: !opts.follow}
	switch { // do not transfer unwanted output
	case opts.stdout == opts.stderr:
	case opts.stdout:
		at.StderrOffset = info.Stderr
	case opts.stderr:
		at.StdoutOffset = info.Stdout
	}
	own, finish := a.connect(a.raw)
	at.Stdout, at.Stderr = a.choose(own, opts)
	p, err := sandbox.Attach(ctx, info.ID, at)
	if err == nil {
		err = p.Wait()
	}
	err = finish(p, err)
	switch {
	case errors.Is(err, podapi.ErrDetached):
		return context.Cause(ctx)
	case errors.As(err, new(*podapi.ExitError)):
		return nil
	}
	return unclear(err)
}

// choose returns the writers for the command's outputs. If only one output is
// wanted, the other writer is nil.
func (a *app) choose(own console.Streams, opts logsOptions) (stdout, stderr io.Writer) {
	switch {
	case opts.stdout == opts.stderr:
		return own.Out, own.Err
	case opts.stdout:
		return own.Out, nil
	case a.json():
		return nil, own.Err
	}
	return nil, own.Out
}
