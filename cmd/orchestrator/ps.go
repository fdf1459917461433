package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/cmd/internal/render"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
)

func psCommand(a *app) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "ps ID",
		Short: "List the commands that run in a sandbox",
		Long: `Ps lists the commands that run in a sandbox, the oldest first, whoever started
them. With --all it also lists commands that have ended: the last 1000, for a day
after their end. It says how many strays there are: processes that belong to none of
these. "orchestrator list" lists the sandboxes themselves.

EXEC is the short form of the exec id. OUTPUT is how much the command has written so
far, to both streams.`,
		Args:              takes(1, 1),
		ValidArgsFunction: a.completeIDs(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.open(cmd.Context(), args[0], func(sandbox *launcher.Sandbox) error {
				if err := a.ps(cmd.Context(), sandbox, all); err != nil {
					return err
				}
				return a.noteStrays(cmd.Context(), sandbox)
			})
		},
	}
	cmd.Flags().BoolVarP(&all, "all", "a", false, "also list commands that have ended")
	return cmd
}

func (a *app) ps(ctx context.Context, sandbox *launcher.Sandbox, all bool) error {
	list, err := sandbox.Processes(ctx)
	if err != nil {
		return err
	}
	if !all {
		list = slices.DeleteFunc(list, func(p podapi.ProcessInfo) bool { return p.Status != nil })
	}
	if a.json() {
		for _, p := range newProcesses(list) {
			if err := render.JSON(a.out, p); err != nil {
				return err
			}
		}
		return nil
	}
	return a.psText(list)
}

func (a *app) psText(list []podapi.ProcessInfo) error {
	const quoted = render.Terminal(true) // anything else would break the table
	table := tabwriter.NewWriter(a.out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "EXEC\tPID\tAGE\tSTATUS\tOUTPUT\tCOMMAND")
	for _, p := range list {
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\t%s\n",
			quoted.Name(short(p.ID)), p.PID, age(time.Since(p.Started)), statusText(p), bytesText(p.Stdout+p.Stderr), briefCommand(p))
	}
	return table.Flush()
}

// statusText returns the state of a process.
func statusText(p podapi.ProcessInfo) string {
	switch {
	case p.Status == nil:
		return "running"
	case p.Status.Reason == podapi.Exited:
		return fmt.Sprintf("exited %d", p.Status.Code)
	}
	return p.Status.String()
}

// commandText returns the command of a process as a user would type it.
func commandText(p podapi.ProcessInfo) string {
	text := plainCommand(p)
	if p.CommandCut > 0 {
		text += fmt.Sprintf(" [... %d more bytes]", p.CommandCut)
	}
	return text
}

// briefCommand returns the command of a process, short enough for a part of a line.
func briefCommand(p podapi.ProcessInfo) string {
	text := []rune(render.Terminal(true).Name(plainCommand(p)))
	if len(text) > commandWidth || p.CommandCut > 0 {
		return string(text[:min(len(text), commandWidth-1)]) + "…"
	}
	return string(text)
}

func plainCommand(p podapi.ProcessInfo) string {
	if len(p.Args) == 0 {
		return p.Script
	}
	words := make([]string, len(p.Args))
	for i, arg := range p.Args {
		words[i] = quote(arg)
	}
	return strings.Join(words, " ")
}
