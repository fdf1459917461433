package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/cmd/orchestrator/internal/flagvalue"
	"github.com/podagent/podagent/cmd/orchestrator/internal/settings"
	"github.com/podagent/podagent/pkg/launcher"
)

func reapCommand(a *app) *cobra.Command {
	opts := launcher.ReapOptions{StaleAfter: launcher.DefaultStaleAfter}
	cmd := &cobra.Command{
		Use:   "reap",
		Short: "Delete the sandboxes that nobody needs any more",
		Long: `Reap deletes each pod whose last heartbeat is older than --stale-after, if its agent
has done no work for as long or cannot be reached. It prints the id of each sandbox
that it deleted, a line each, even if it failed to delete others.`,
		Args:              takes(0, 0),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.reap(cmd.Context(), opts)
		},
	}
	cmd.Flags().Var((*flagvalue.Period)(&opts.StaleAfter), "stale-after", "how old the last heartbeat must be")
	settings.Mark(cmd.Flags(), "stale-after")
	cmd.Flags().BoolVar(&opts.HeartbeatOnly, "heartbeat-only", false, "look at the heartbeat only: also delete pods whose agent is at work")
	cmd.Flags().BoolVar(&opts.DryRun, "dry-run", false, "delete nothing, and print what reap would delete")
	return cmd
}

func (a *app) reap(ctx context.Context, opts launcher.ReapOptions) error {
	if a.backend.Value == onThisHost {
		return usagef("reap is not for the local backend, because its sandboxes have no heartbeat: take them down with \"orchestrator down\"")
	}
	reaper, err := a.pods("reap")
	if err != nil {
		return err
	}
	reaped, err := reaper.Reap(ctx, opts)
	return errors.Join(a.printReaped(reaped), failures(err))
}

func (a *app) printReaped(list []launcher.Summary) error {
	if a.json() {
		return a.listJSON(list)
	}
	for _, s := range list {
		if _, err := fmt.Fprintln(a.out, a.terminal.Name(s.ID)); err != nil {
			return err
		}
	}
	return nil
}

// failures marks each of the errors joined in err as one of the launcher.
func failures(err error) error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return &sandboxError{launching: true, err: err}
	}
	var all []error
	for _, err := range joined.Unwrap() {
		all = append(all, &sandboxError{launching: true, err: err})
	}
	return errors.Join(all...)
}
