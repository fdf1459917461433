package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/cmd/orchestrator/internal/flagvalue"
)

func extendCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "extend ID DURATION",
		Short: "Let a sandbox with a lifetime live on",
		Long: `Extend lets a sandbox that was launched with --lifetime live for at least DURATION
from now, such as 2h, and prints when it will end. It never shortens a lifetime. It
cannot extend the pod's active deadline.

With --backend agent-sandbox every sandbox has a lifetime, at first that of --lifetime or
else of --active-deadline.`,
		Args:              takes(2, 2),
		ValidArgsFunction: a.completeIDs(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			var d flagvalue.Period
			if err := d.Set(args[1]); err != nil {
				return usagef("cannot extend by %q: %w", args[1], err)
			}
			return a.extend(cmd.Context(), args[0], time.Duration(d))
		},
	}
}

func (a *app) extend(ctx context.Context, id string, d time.Duration) error {
	l, err := a.podLauncher("extend")
	if err != nil {
		return err
	}
	expires, err := l.Extend(ctx, id, d)
	if err != nil {
		return &sandboxError{id: id, err: err}
	}
	text := expires.UTC().Format(time.RFC3339)
	return a.print(struct {
		ID      string `json:"id"`
		Expires string `json:"expires"`
	}{id, text}, text+"\n")
}
