package main

import (
	"context"
	"fmt"
	"io/fs"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/cmd/internal/render"
	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
)

func statCommand(a *app) *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:               "stat ID PATH",
		Short:             "Describe a file",
		Args:              takes(2, 2),
		ValidArgsFunction: a.completeIDs(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.open(cmd.Context(), args[0], func(sandbox *launcher.Sandbox) error {
				return a.stat(cmd.Context(), sandbox, args[1], follow)
			})
		},
	}
	cmd.Flags().BoolVarP(&follow, "dereference", "L", false, "describe the file that a symbolic link names")
	return cmd
}

func (a *app) stat(ctx context.Context, sandbox *launcher.Sandbox, path string, follow bool) error {
	look := sandbox.Lstat
	if follow {
		look = sandbox.Stat
	}
	attr, err := look(ctx, path)
	if err != nil {
		return err
	}
	if a.json() {
		return render.JSON(a.out, render.NewAttr(attr))
	}
	return a.describe(attr)
}

func (a *app) describe(attr fsops.Attr) error {
	table := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "path:\t%s\n", printable(attr.Path))
	fmt.Fprintf(table, "type:\t%s\n", render.TypeName(attr.Mode))
	if attr.Mode.Type() == fs.ModeSymlink {
		fmt.Fprintf(table, "target:\t%s\n", printable(attr.Target))
	}
	fmt.Fprintf(table, "size:\t%d\n", attr.Size)
	fmt.Fprintf(table, "mode:\t%s (%s)\n", render.Mode(attr.Mode), modeText(attr.Mode))
	fmt.Fprintf(table, "owner:\t%d:%d\n", attr.UID, attr.GID)
	fmt.Fprintf(table, "modified:\t%s\n", attr.ModTime.Format(time.RFC3339Nano))
	fmt.Fprintf(table, "etag:\t%s\n", attr.ETag)
	return table.Flush()
}
