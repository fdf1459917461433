package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/cmd/internal/render"
	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
)

func watchCommand(a *app) *cobra.Command {
	var opts fsops.WatchOptions
	cmd := &cobra.Command{
		Use:   "watch ID PATH",
		Short: "Print changes to files until interrupted",
		Long: `Watch prints a line for each change to a file or directory, until it is
interrupted or the path is gone. The first line is "ready": every change from
then on is printed, as create, write, remove, rename or chmod. The line
"overflow" says that changes were lost, so that the files must be read again.`,
		Args:              takes(2, 2),
		ValidArgsFunction: a.completeIDs(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.open(cmd.Context(), args[0], func(sandbox *launcher.Sandbox) error {
				return a.watch(cmd.Context(), sandbox, args[1], opts)
			})
		},
	}
	cmd.Flags().BoolVarP(&opts.Recursive, "recursive", "r", false, "watch the whole tree, including directories that are made later")
	return cmd
}

func (a *app) watch(ctx context.Context, sandbox *launcher.Sandbox, path string, opts fsops.WatchOptions) error {
	for event, err := range sandbox.Watch(ctx, path, opts) {
		if err != nil {
			return err
		}
		if err := a.event(event); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) event(event fsops.WatchEvent) error {
	return a.print(struct {
		Event string      `json:"event"`
		Path  render.Text `json:"path"`
		Time  time.Time   `json:"time"`
	}{watchOps[event.Op], render.Text(event.Path), event.Time},
		fmt.Sprintf("%-8s %s\n", watchOps[event.Op], a.terminal.Name(event.Path)))
}

var watchOps = map[fsops.WatchOp]string{
	fsops.WatchReady:    "ready",
	fsops.WatchCreate:   "create",
	fsops.WatchWrite:    "write",
	fsops.WatchRemove:   "remove",
	fsops.WatchRename:   "rename",
	fsops.WatchChmod:    "chmod",
	fsops.WatchOverflow: "overflow",
}
