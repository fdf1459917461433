package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/pkg/launcher"
)

// findShell prints the path of the user's shell. Accounts of services have a shell that
// lets nobody in: it does not count.
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
	path, err := c.Output()
	_ = sandbox.Forget(ctx, c.ID) // nobody wants to see it in ps --all
	if err != nil {
		return "", &unclearError{fmt.Errorf("cannot find a shell in the sandbox: %w", err)}
	}
	return strings.TrimSuffix(string(path), "\n"), nil
}
