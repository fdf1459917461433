package main

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/cmd/internal/render"
	"github.com/podagent/podagent/cmd/orchestrator/internal/flagvalue"
	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
)

func putCommand(a *app) *cobra.Command {
	var from string
	var mode flagvalue.FileMode
	var opts fsops.WriteOptions
	cmd := &cobra.Command{
		Use:   "put ID PATH",
		Short: "Write a file from standard input",
		Long: `Put writes a file in the sandbox from standard input or from a local file. It creates
or replaces the file in one step, once all content has arrived.`,
		Example:           "  echo hello | orchestrator put job-1 notes/hello.txt --parents",
		Args:              takes(2, 2),
		ValidArgsFunction: a.completeIDs(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			source := a.in
			if from != "" {
				file, err := os.Open(from)
				if err != nil {
					return err
				}
				defer file.Close()
				source = file
			}
			return a.open(cmd.Context(), args[0], func(sandbox *launcher.Sandbox) error {
				return a.put(cmd.Context(), sandbox, args[1], source, opts, mode)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&from, "from", "", "read the local `FILE` instead of standard input")
	flags.Var(&mode, "mode", "the permission bits of the file (default those of the existing file, or 0666 less the umask)")
	flags.BoolVarP(&opts.Parents, "parents", "p", false, "make missing parent directories")
	flags.BoolVar(&opts.Exclusive, "exclusive", false, "fail if the file exists")
	return cmd
}

func (a *app) put(ctx context.Context, sandbox *launcher.Sandbox, path string, source io.Reader, opts fsops.WriteOptions, mode flagvalue.FileMode) error {
	if mode.Given {
		opts.Perm = mode.Bits
	}
	result, err := upload(ctx, sandbox, path, source, opts)
	if err != nil {
		return err
	}
	if mode.Given && result.Attr.Mode.Perm() != mode.Bits {
		if err := sandbox.Chmod(ctx, path, mode.Bits); err != nil {
			return err
		}
		if result.Attr, err = sandbox.Stat(ctx, path); err != nil {
			return err
		}
	}
	return a.written(path, result)
}

// written reports how a file was written.
func (a *app) written(path string, result fsops.WriteResult) error {
	if a.json() {
		return render.JSON(a.out, struct {
			render.Attr
			Created bool `json:"created"`
			InPlace bool `json:"in_place"`
		}{render.NewAttr(result.Attr), result.Created, result.InPlace})
	}
	if result.InPlace {
		a.note("%s could not be replaced in one step and was overwritten in place", quote(path))
	}
	return nil
}

// upload writes a file of the sandbox. It ends when ctx ends, even while the source
// blocks.
func upload(ctx context.Context, sandbox *launcher.Sandbox, path string, source io.Reader, opts fsops.WriteOptions) (fsops.WriteResult, error) {
	type outcome struct {
		result fsops.WriteResult
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		result, err := sandbox.Write(ctx, path, source, opts)
		done <- outcome{result, err}
	}()
	select {
	case o := <-done:
		return o.result, o.err
	case <-ctx.Done():
		return fsops.WriteResult{}, context.Cause(ctx)
	}
}
