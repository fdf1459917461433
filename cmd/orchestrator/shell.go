package main

import (
	"context"
	"fmt"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/pkg/launcher"
)

// findShell prints the path of the user's shell. Service accounts may have a shell
// that lets nobody in, which does not count.
const findShell = `case $SHELL in */nologin | */false) SHELL= ;; esac
command -v "${SHELL:-bash}" || command -v bash || command -v sh`

func shellCommand(a *app) *cobra.Command {
	opts := execOptions{terminal: true}
	cmd := &cobra.Command{
		Use:   "shell ID [flags] [--] [COMMAND [ARG]...]",
		Short: "Open a shell in a sandbox",
		Long: `Shell opens a terminal in a sandbox and shows it in this one. It runs COMMAND, or
else a shell in the workdir: the sandbox's $SHELL, or bash, or sh. Environment, exit
status and interruption are those of exec -t.

When the connection breaks, the terminal continues once there is a new one. ctrl-p
ctrl-q leaves the shell running, and "orchestrator attach" goes back to it.

` + exitHelp,
		Example: `  orchestrator shell job-1
  orchestrator shell job-1 -- top`,
		ValidArgsFunction: a.completeIDs(false),
		PersistentPreRunE: loadedLater,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, command, err := a.commandAfterID(cmd, args)
			if err == nil && len(args) == 0 {
				err = takes(1, -1)(cmd, args)
			}
			if err == nil {
				err = opts.egress.check(cmd.Context(), a)
			}
			if err == nil {
				err = a.needsConsole(opts.keys, cmd.Name())
			}
			if err != nil {
				return err
			}
			return a.open(cmd.Context(), id, func(sandbox *launcher.Sandbox) error {
				return a.shell(cmd.Context(), sandbox, command, opts)
			})
		},
	}
	cmd.Flags().SetInterspersed(false)
	inFlags(cmd, &opts)
	keysFlag(cmd, &opts.keys)
	return cmd
}

func (a *app) shell(ctx context.Context, sandbox *launcher.Sandbox, command []string, opts execOptions) error {
	if len(command) == 0 {
		path, err := shellPath(ctx, sandbox, opts.env)
		if err != nil {
			return err
		}
		command = []string{path}
	}
	return a.exec(ctx, sandbox, command, opts)
}

// shellPath asks the sandbox for the path of its shell, so that ps lists this command.
func shellPath(ctx context.Context, sandbox *launcher.Sandbox, env []string) (string, error) {
	c := sandbox.Shell(ctx, findShell)
	c.Env = env
	var path shortText
	c.Stdout = &path
	err := c.Run()
	_ = sandbox.Forget(ctx, c.ID) // keep it out of ps --all
	if err != nil {
		return "", &unclearError{fmt.Errorf("cannot find a shell in the sandbox: %w", err)}
	}
	return strings.TrimSuffix(string(path), "\n"), nil
}

// shortText takes a path, and no more than that from a sandbox that goes on.
type shortText []byte

func (t *shortText) Write(p []byte) (int, error) {
	if len(*t)+len(p) > maxShellPath {
		return 0, syscall.ENAMETOOLONG
	}
	*t = append(*t, p...)
	return len(p), nil
}
