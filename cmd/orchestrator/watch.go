package main

import (
	"cmp"
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
then on is printed, as create, write, remove, rename or chmod. Writes to a file
within a few milliseconds count as one, and as part of its creation if that is among
them. A file that is moved out of the directory is printed as removed, and one
that is moved into it as created. The line "overflow" says that changes were lost,
so that the files must be read again.`,
		Args:              takes(2, 2),
		ValidArgsFunction: a.completeIDs(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.open(cmd.Context(), args[0], func(sandbox *launcher.Sandbox) error {
				return a.watch(cmd.Context(), sandbox, args[1], opts)
			})
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&opts.Ignore, "ignore", false, "leave out .git and what .gitignore files and their like exclude")
	flags.BoolVarP(&opts.Recursive, "recursive", "r", false, "watch the whole tree, including directories that are made later")
	return cmd
}

func (a *app) watch(ctx context.Context, sandbox *launcher.Sandbox, path string, opts fsops.WatchOptions) error {
	var failed error // from printing that the watch is ready
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	opts.Ready = func() {
		failed = a.watched("ready", fsops.WatchEvent{Path: path, Time: time.Now()})
		if failed != nil {
			stop()
		}
	}
	for event, err := range sandbox.Watch(ctx, path, opts) {
		if err != nil {
			return cmp.Or(failed, err)
		}
		if err := a.watched(watchOps[event.Op], event); err != nil {
			return err
		}
	}
	return nil
}

// watched prints a line about an event, or an object as JSON.
func (a *app) watched(what string, event fsops.WatchEvent) error {
	out := struct {
		Event string      `json:"event"`
		Path  render.Text `json:"path"`
		From  render.Text `json:"from,omitempty"`
		Time  time.Time   `json:"time"`
	}{what, render.Text(event.Path), render.Text(event.From), event.Time}
	name := a.terminal.Name(event.Path)
	if event.From != "" {
		name = a.terminal.Name(event.From) + " -> " + name
	}
	return a.print(out, fmt.Sprintf("%-8s %s\n", what, name))
}

var watchOps = map[fsops.WatchOp]string{
	fsops.WatchCreate:   "create",
	fsops.WatchWrite:    "write",
	fsops.WatchRemove:   "remove",
	fsops.WatchRename:   "rename",
	fsops.WatchChmod:    "chmod",
	fsops.WatchOverflow: "overflow",
}
