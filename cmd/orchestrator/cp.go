package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/cmd/internal/render"
	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
)

func cpCommand(a *app) *cobra.Command {
	var id string
	var opts podapi.TransferOptions
	cmd := &cobra.Command{
		Use:   "cp SOURCE TARGET",
		Short: "Copy files and trees into or out of a sandbox",
		Long: `Cp copies files and directories between this machine and a sandbox. Either SOURCE or
TARGET is ID:PATH. In a local path with a colon, put a slash before the colon
(./a:b). If the id contains a slash or a colon, give it by --id and write :PATH.

If TARGET is a directory, cp copies SOURCE into it. Otherwise the copy gets the name
TARGET. Directories are copied with everything in them. Modes are kept; on this
machine its umask applies.`,
		Example: `  orchestrator cp ./src job-1:
  orchestrator cp job-1:report.txt .
  orchestrator cp --id team/job-1 :out ./out`,
		Args:              takes(2, 2),
		ValidArgsFunction: a.completeEnds,
		RunE: func(cmd *cobra.Command, args []string) error {
			from, to, err := parseEnds(args[0], args[1], id)
			if err != nil {
				return err
			}
			return a.cp(cmd.Context(), from, to, opts)
		},
	}
	cmd.Flags().StringVar(&id, "id", "", "the `ID` of the sandbox whose paths begin with a colon")
	cmd.Flags().BoolVar(&opts.Ignore, "ignore", false, "leave out files that .gitignore files in the tree exclude")
	cmd.Flags().StringArrayVar(&opts.Exclude, "exclude", nil, "leave out files in the tree that match `GLOB`; may be repeated")
	cmd.Flags().BoolVar(&opts.OutsideLinks, "outside-links", false, "also copy symbolic links that lead out of the tree; cp writes nothing through them")
	return cmd
}

// completeEnds completes to ids, each with its colon, and to local files.
func (a *app) completeEnds(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var ends []string
	for _, id := range a.ids(cmd.Context()) {
		if parseEnd(id+":", "").id == id {
			ends = append(ends, id+":")
		}
	}
	if len(args) > 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return ends, cobra.ShellCompDirectiveNoSpace
}

func (a *app) cp(ctx context.Context, from, to end, opts podapi.TransferOptions) error {
	if to.inSandbox {
		return a.open(ctx, to.id, func(sandbox *launcher.Sandbox) error {
			return a.copyIn(ctx, sandbox, from.path, to.path, opts)
		})
	}
	return a.open(ctx, from.id, func(sandbox *launcher.Sandbox) error {
		return a.copyOut(ctx, sandbox, from.path, to.path, opts)
	})
}

// copyIn copies a local file or tree into the sandbox.
func (a *app) copyIn(ctx context.Context, sandbox *launcher.Sandbox, source, target string, opts podapi.TransferOptions) error {
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	there, err := sandbox.Stat(ctx, target)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	target, err = destination{target, err == nil, there.IsDir()}.landing(filepath.ToSlash(source), info.IsDir())
	if err != nil {
		return err
	}
	if info.IsDir() {
		bar := a.progress(source, -1)
		defer bar.clear()
		opts.Progress = bar.moved
		stats, err := sandbox.Push(ctx, source, target, opts)
		return a.copied(target, stats, err)
	}
	stats, err := a.pushFile(ctx, sandbox, source, info, target)
	return a.copied(target, stats, err)
}

// copyOut copies a file or a tree of the sandbox to this machine.
func (a *app) copyOut(ctx context.Context, sandbox *launcher.Sandbox, source, target string, opts podapi.TransferOptions) error {
	attr, err := sandbox.Stat(ctx, source)
	if err != nil {
		return err
	}
	info, err := os.Stat(target)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	target, err = destination{filepath.ToSlash(target), err == nil, err == nil && info.IsDir()}.landing(source, attr.IsDir())
	if err != nil {
		return err
	}
	if target, err = filepath.Abs(target); err != nil {
		return err
	}
	if attr.IsDir() {
		bar := a.progress(source, -1)
		defer bar.clear()
		opts.Progress = bar.moved
		stats, err := sandbox.Pull(ctx, source, target, opts)
		return a.copied(target, stats, err)
	}
	stats, err := a.pullFile(ctx, sandbox, attr, target)
	return a.copied(target, stats, err)
}

// copied prints what was copied, and what was left out.
func (a *app) copied(target string, stats fsops.TreeStats, err error) error {
	if err != nil {
		return err
	}
	if stats.Skipped > 0 {
		a.note("left out devices, FIFOs and sockets: %d", stats.Skipped)
	}
	return a.print(struct {
		Target  render.Text `json:"target"`
		Entries int64       `json:"entries"`
		Bytes   int64       `json:"bytes"`
		Skipped int64       `json:"skipped"`
	}{render.Text(target), stats.Entries, stats.Bytes, stats.Skipped}, "")
}
