package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
)

// standard is the FILE that means standard input or output.
const standard = "-"

func exportCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "export ID CHECKPOINT FILE",
		Short: "Write a checkpoint of a sandbox to a file",
		Long: `Export writes a checkpoint to one file, compressed by zstd, that import reads. FILE is on this
machine; - is standard output. The file appears once it is complete, and compared with the checkpoint's id.`,
		Example: `  orchestrator export job-1 4f0c… state.zst
  orchestrator export job-1 4f0c… - | ssh host orchestrator import job-1 -`,
		Args:              takes(3, 3),
		ValidArgsFunction: a.completeCheckpoints(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := checkpoint.ParseID(args[1])
			if err != nil {
				return err
			}
			return a.open(cmd.Context(), args[0], func(sandbox *launcher.Sandbox) error {
				if args[2] == standard {
					return sandbox.ExportCheckpoint(cmd.Context(), id, a.out, checkpoint.FileOptions{})
				}
				return exportTo(cmd.Context(), sandbox, id, args[2])
			})
		},
	}
}

// exportTo writes a file that is there as a whole or not at all, or to a device or pipe that is there.
func exportTo(ctx context.Context, sandbox *launcher.Sandbox, id checkpoint.ID, path string) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(sandbox.ExportCheckpoint(ctx, id, file, checkpoint.FileOptions{}), file.Close())
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".podagent-export-")
	if err != nil {
		return &fs.PathError{Op: "export", Path: path, Err: errors.Unwrap(err)}
	}
	err = errors.Join(sandbox.ExportCheckpoint(ctx, id, file, checkpoint.FileOptions{}), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(file.Name()))
	}
	return err
}

func importCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "import ID FILE",
		Short: "Read a checkpoint of a sandbox from a file",
		Long: `Import gives a sandbox a checkpoint that export has written to a file, and prints its id. FILE
is on this machine; - is standard input. The files of the sandbox stay as they are until
"orchestrator restore". A file that is cut off or was changed is refused as a whole.`,
		Example: `  orchestrator import job-2 state.zst
  orchestrator restore job-2 "$(orchestrator import job-2 state.zst)"`,
		Args: takes(2, 2),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return a.completeIDs(false)(cmd, args, typed)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var source io.Reader = a.in
			if args[1] != standard {
				file, err := os.Open(args[1])
				if err != nil {
					return err
				}
				defer file.Close()
				source = file
			}
			return a.open(cmd.Context(), args[0], func(sandbox *launcher.Sandbox) error {
				c, err := sandbox.ImportCheckpoint(cmd.Context(), source, podapi.CopyOptions{})
				if err != nil {
					return err
				}
				return a.print(newCheckpoint(c.Checkpoint), string(c.ID)+"\n")
			})
		},
	}
}
