package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/cmd/internal/render"
	"github.com/podagent/podagent/pkg/fsops/checkpoint"
	"github.com/podagent/podagent/pkg/launcher"
)

func diffCommand(a *app) *cobra.Command {
	var opts checkpoint.DiffOptions
	cmd := &cobra.Command{
		Use:   "diff ID CHECKPOINT [CHECKPOINT]",
		Short: "Show what has changed in a sandbox's workdir since a checkpoint",
		Long: `Diff shows how what is in the workdir of a sandbox now differs from a checkpoint, or how
another checkpoint does. Each line has a path, and in front of it

  A   it was added                  T   it is of another type now
  D   it was removed                m   its mode, owner or time alone differs
  M   its content differs           ?   it cannot be read, and may differ

With --text it prints unified diffs of text files of up to 256 KiB, and a line for all
else.`,
		Example: `  orchestrator diff job-1 4f0c…
  orchestrator diff job-1 4f0c… 93b1… --text`,
		Args:              takes(2, 3),
		ValidArgsFunction: a.completeCheckpoints(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.open(cmd.Context(), args[0], func(sandbox *launcher.Sandbox) error {
				return a.diff(cmd.Context(), sandbox, args[1:], opts)
			})
		},
	}
	cmd.Flags().BoolVar(&opts.Text, "text", false, "print unified diffs")
	return cmd
}

func (a *app) diff(ctx context.Context, sandbox *launcher.Sandbox, args []string, opts checkpoint.DiffOptions) error {
	var ids [2]checkpoint.ID
	for i, text := range args {
		id, err := checkpoint.ParseID(text)
		if err != nil {
			return err
		}
		ids[i] = id
	}
	for d, err := range sandbox.Diff(ctx, ids[0], ids[1], opts) {
		if err == nil {
			err = a.printDifference(d)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *app) printDifference(d checkpoint.Difference) error {
	if a.json() {
		return render.JSON(a.out, struct {
			Path   render.Text `json:"path"`
			How    string      `json:"how"`
			Dir    bool        `json:"dir,omitempty"`
			Diff   render.Text `json:"diff,omitempty"`
			NoDiff string      `json:"no_diff,omitempty"`
		}{render.Text(d.Path), d.How, d.Dir, render.Text(d.Diff), d.NoDiff})
	}
	if len(d.Diff) > 0 {
		return a.printText(d.Diff)
	}
	return a.printText([]byte(d.Line(quote(d.Path)) + "\n"))
}
