package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
)

// execOptions says how a command is run.
type execOptions struct {
	interactive bool
	dir         string
	env         []string
	timeout     time.Duration
}

func execCommand(a *app) *cobra.Command {
	var opts execOptions
	cmd := &cobra.Command{
		Use:   "exec ID [flags] [--] COMMAND [ARG]...",
		Short: "Run a command in a sandbox",
		Long: `Exec runs a command in a sandbox and exits with its status. The command is not
passed to a shell: run one where you need it (sh -c '...'). Flags of exec come
before the command. When exec is interrupted or terminated, the command and
everything that it started is killed.

With -o json the output is printed as lines such as
{"type":"stdout","data":{"text":"..."}}, and the last line says how the command
ended.

` + exitHelp,
		Example: `  orchestrator exec job-1 -- go test ./...
  orchestrator exec job-1 -i -- sh < script.sh`,
		ValidArgsFunction: a.completeIDs(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, command, err := commandAfterID(cmd, args)
			if err == nil {
				err = opts.check()
			}
			if err != nil {
				return err
			}
			return a.open(cmd.Context(), id, func(sandbox *launcher.Sandbox) error {
				return a.exec(cmd.Context(), sandbox, command, opts)
			})
		},
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false)
	flags.VarP((*env)(&opts.env), "env", "e", "add to the command's environment; may be repeated")
	flags.StringVarP(&opts.dir, "workdir", "w", "", "run in `DIR` (default the sandbox's workdir)")
	execFlags(cmd, &opts)
	return cmd
}

func (o *execOptions) check() error {
	if o.timeout < 0 {
		return usagef("--timeout %v is negative", o.timeout)
	}
	return nil
}

// execFlags are the flags that exec and run share.
func execFlags(cmd *cobra.Command, opts *execOptions) {
	cmd.Flags().BoolVarP(&opts.interactive, "interactive", "i", false, "pass standard input to the command")
	cmd.Flags().DurationVar(&opts.timeout, "timeout", 0, "end the command after `DURATION`, such as 90s (default never)")
}

// commandAfterID returns the id and the command. Flags were parsed up to the
// first word, which is the id; those that follow it are parsed here.
func commandAfterID(cmd *cobra.Command, args []string) (id string, command []string, err error) {
	if len(args) > 0 {
		id, args = args[0], args[1:]
		if err := cmd.ParseFlags(args); err != nil {
			return "", nil, cmd.FlagErrorFunc()(cmd, err)
		}
		if help, err := cmd.Flags().GetBool("help"); help && err == nil {
			return "", nil, pflag.ErrHelp
		}
		args = cmd.Flags().Args()
	}
	if len(args) == 0 {
		return "", nil, usagef("%s needs an id and a command: the usage is %q", cmd.Name(), cmd.UseLine())
	}
	return id, args, nil
}

// exec runs the command in the sandbox, with the program's own streams. When
// nobody reads them any more, or ctx ends, the command is killed.
func (a *app) exec(ctx context.Context, sandbox *launcher.Sandbox, command []string, opts execOptions) error {
	c := sandbox.Command(ctx, command[0], command[1:]...)
	c.Dir, c.Env, c.Timeout = opts.dir, opts.env, opts.timeout
	if opts.interactive {
		c.Stdin = a.in
	}
	finish := a.connect(c)
	if err := c.Start(); err != nil {
		return err
	}
	err := finish(c.Wait())
	if _, ended := errors.AsType[*podapi.ExitError](err); err != nil && !ended {
		return &unclearError{err}
	}
	return err
}

// connect gives the command its writers. The function that is returned
// finishes the output, with what Wait said.
func (a *app) connect(c *podapi.Cmd) (finish func(error) error) {
	if !a.json() {
		c.Stdout, c.Stderr = a.out, a.err
		return func(err error) error { return err }
	}
	lines := &execLines{out: a.out}
	outLines, errLines := lines.stream("stdout"), lines.stream("stderr")
	c.Stdout, c.Stderr = outLines, errLines
	return func(err error) error {
		flushed := errors.Join(outLines.Flush(), errLines.Flush())
		if status := c.Status(); status != nil {
			flushed = errors.Join(flushed, lines.exit(*status))
		}
		if err == nil {
			err = flushed
		}
		return err
	}
}
