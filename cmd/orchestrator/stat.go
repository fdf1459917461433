package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
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
	cmd.Flags().BoolVarP(&follow, "dereference", "L", false, "describe the file that a symbolic link points to")
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
	var text bytes.Buffer
	fmt.Fprintf(&text, "path:      %s\n", a.terminal.Name(attr.Path))
	fmt.Fprintf(&text, "type:      %s\n", fsops.TypeName(attr.Mode))
	if attr.Mode.Type() == fs.ModeSymlink {
		fmt.Fprintf(&text, "target:    %s\n", a.terminal.Name(attr.Target))
	}
	fmt.Fprintf(&text, "size:      %d\n", attr.Size)
	fmt.Fprintf(&text, "mode:      %s (%s)\n", fsops.OctalMode(attr.Mode), modeText(attr.Mode))
	fmt.Fprintf(&text, "owner:     %d:%d\n", attr.UID, attr.GID)
	fmt.Fprintf(&text, "modified:  %s\n", attr.ModTime.Format(time.RFC3339Nano))
	fmt.Fprintf(&text, "etag:      %s\n", a.terminal.Name(attr.ETag))
	return a.printText(text.Bytes())
}
