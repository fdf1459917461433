package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/pkg/launcher"
)

// findShell prints where the user's shell is. One that lets nobody in is what
// accounts of services have.
const findShell = `case $SHELL in */nologin | */false) SHELL= ;; esac
command -v "${SHELL:-bash}" || command -v bash || command -v sh`

func shellCommand(a *app) *cobra.Command {
	opts := execOptions{terminal: true}
	cmd := &cobra.Command{
		Use:   "shell ID [flags] [--] [COMMAND [ARG]...]",
		Short: "Open a shell in a sandbox",
		Long: `Shell opens a terminal in a sandbox, which is shown in this one: with a shell in
the workdir, or with COMMAND. The shell is the sandbox's $SHELL, or bash, or sh. It
has the environment that exec gives, and exit status and interruption are as
with exec -t.

When the connection is lost, the terminal goes on once it is back. ctrl-p ctrl-q
leaves the shell running, and "orchestrator attach" goes back to it.

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

// shellPath asks the sandbox where its shell is, so that this is the command
// that ps lists.
func shellPath(ctx context.Context, sandbox *launcher.Sandbox, env []string) (string, error) {
	c := sandbox.Shell(ctx, findShell)
	c.Env = env
	path, err := c.Output()
	_ = sandbox.Forget(ctx, c.ID) // it is of no interest to who lists what ran
	if err != nil {
		return "", &unclearError{fmt.Errorf("cannot find a shell in the sandbox: %w", err)}
	}
	return strings.TrimSuffix(string(path), "\n"), nil
}
