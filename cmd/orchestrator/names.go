package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
)

// pathsVerb is a verb that does one thing to each of some paths.
type pathsVerb func(ctx context.Context, sandbox *launcher.Sandbox, path string) error

// eachPath returns what runs the verb over the paths, up to the first that
// fails.
func (a *app) eachPath(verb pathsVerb) func(cmd *cobra.Command, args []string) error {
	return func(cmd *cobra.Command, args []string) error {
		return a.open(cmd.Context(), args[0], func(sandbox *launcher.Sandbox) error {
			for _, path := range args[1:] {
				if err := verb(cmd.Context(), sandbox, path); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

func mkdirCommand(a *app) *cobra.Command {
	var opts fsops.MkdirOptions
	cmd := &cobra.Command{
		Use:               "mkdir ID PATH...",
		Short:             "Make directories",
		Args:              takes(2, -1),
		ValidArgsFunction: a.completeIDs(false),
		RunE: a.eachPath(func(ctx context.Context, sandbox *launcher.Sandbox, path string) error {
			return sandbox.Mkdir(ctx, path, opts)
		}),
	}
	cmd.Flags().BoolVarP(&opts.Parents, "parents", "p", false, "make missing parents, and do not mind what exists")
	return cmd
}

func rmCommand(a *app) *cobra.Command {
	var opts fsops.RemoveOptions
	cmd := &cobra.Command{
		Use:               "rm ID PATH...",
		Short:             "Remove files, or directories with -r",
		Args:              takes(2, -1),
		ValidArgsFunction: a.completeIDs(false),
		RunE: a.eachPath(func(ctx context.Context, sandbox *launcher.Sandbox, path string) error {
			return sandbox.Remove(ctx, path, opts)
		}),
	}
	cmd.Flags().BoolVarP(&opts.Recursive, "recursive", "r", false, "remove directories with what is in them")
	cmd.Flags().BoolVarP(&opts.Force, "force", "f", false, "do not mind what does not exist")
	return cmd
}

func mvCommand(a *app) *cobra.Command {
	var opts fsops.RenameOptions
	cmd := &cobra.Command{
		Use:   "mv ID OLD NEW",
		Short: "Rename a file or a directory",
		Long: `Mv renames a file or a directory within its file system. NEW is its whole new
name, also where that is the name of a directory.`,
		Args:              takes(3, 3),
		ValidArgsFunction: a.completeIDs(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.open(cmd.Context(), args[0], func(sandbox *launcher.Sandbox) error {
				return sandbox.Rename(cmd.Context(), args[1], args[2], opts)
			})
		},
	}
	cmd.Flags().BoolVarP(&opts.NoReplace, "no-clobber", "n", false, "fail if the new name exists")
	return cmd
}
