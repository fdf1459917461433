package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/cmd/internal/render"
	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
)

func editCommand(a *app) *cobra.Command {
	var old, replacement string
	var all bool
	cmd := &cobra.Command{
		Use:   "edit ID PATH --old TEXT --new TEXT",
		Short: "Replace text in a file and print the diff",
		Long: `Edit replaces text that occurs exactly once in a file, or every occurrence with
--all. Otherwise it fails and leaves the file as it is: if the text does not occur,
or occurs more than once without --all.`,
		Example:           "  orchestrator edit job-1 main.go --old 'Printl(' --new 'Println('",
		Args:              takes(2, 2),
		ValidArgsFunction: a.completeIDs(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			if old == "" || !cmd.Flags().Changed("new") {
				return usagef("edit needs --old with the text to replace and --new with its replacement")
			}
			edit := fsops.Edit{Old: []byte(old), New: []byte(replacement), All: all}
			return a.open(cmd.Context(), args[0], func(sandbox *launcher.Sandbox) error {
				return a.edit(cmd.Context(), sandbox, args[1], edit)
			})
		},
	}
	cmd.Flags().StringVar(&old, "old", "", "the exact `TEXT` to replace")
	cmd.Flags().StringVar(&replacement, "new", "", "the `TEXT` to put in its place; may be empty")
	cmd.Flags().BoolVar(&all, "all", false, "replace every occurrence")
	return cmd
}

func (a *app) edit(ctx context.Context, sandbox *launcher.Sandbox, path string, edit fsops.Edit) error {
	result, err := sandbox.Edit(ctx, path, []fsops.Edit{edit}, fsops.EditOptions{})
	if err != nil {
		return err
	}
	if a.json() {
		return render.JSON(a.out, struct {
			Path        render.Text `json:"path"`
			Occurrences int         `json:"occurrences"`
			InPlace     bool        `json:"in_place"`
			ETag        string      `json:"etag"`
			Diff        render.Text `json:"diff"`
			Truncated   bool        `json:"diff_truncated"`
		}{render.Text(path), result.Occurrences[0], result.Write.InPlace, result.Write.Attr.ETag, result.Diff, result.DiffTruncated})
	}
	if result.DiffTruncated {
		a.note("the diff is too long: this is its beginning")
	}
	if _, err := a.out.Write(a.terminal.Text(result.Diff)); err != nil {
		return err
	}
	return a.written(path, result.Write)
}
