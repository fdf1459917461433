package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podagent/podagent/cmd/orchestrator/internal/console"
	"github.com/podagent/podagent/cmd/orchestrator/internal/flagvalue"
	"github.com/podagent/podagent/cmd/orchestrator/internal/settings"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
)

// execOptions says how a command is run.
type execOptions struct {
	id          string
	dir         string
	env         []string
	timeout     time.Duration
	limits      flagvalue.Rlimits
	interactive bool
	terminal    bool
	keys        console.DetachKeys
	detach      bool
	egress      *egressFlags
}

var execHelp = `Exec runs a command in a sandbox and exits with its status. No shell sees the
command: run one if you need it (sh -c '...'). Put the flags of exec in front of
the command. When you interrupt or terminate exec, it kills the command and
everything that the command started. When exec itself is killed, or loses its
connection for good, the command runs on: see "orchestrator ps".

With --detach, exec starts the command, prints its exec id and exits. The command
runs on: use "orchestrator logs", attach, wait and kill. With --exec-id, a command
runs only once in the life of the agent, however often you repeat exec. Each
repetition prints the output from its start, or the last 64 MiB of it. The agent
remembers this for a day after the command's end, and for the last 1000 commands.

With -t, the command runs in a terminal of its own, and this terminal shows it. It
gets all keys but ctrl-p ctrl-q: these leave it running, and "orchestrator attach"
goes back to it.

` + fmt.Sprintf(rawHelp, "exec without -t") + `

With --allow-host or --credential, exec serves the way out of the sandbox while the
command runs, and says which hosts were denied: see "orchestrator egress". If another
program serves it, exec fails. With these as settings, it says so and goes on.

With -o json, exec prints the output as lines such as
{"type":"stdout","data":{"text":"..."}}. The last line says how the command ended.

` + exitHelp

func execCommand(a *app) *cobra.Command {
	var opts execOptions
	cmd := &cobra.Command{
		Use:   "exec ID [flags] [--] COMMAND [ARG]...",
		Short: "Run a command in a sandbox",
		Long:  execHelp,
		Example: `  orchestrator exec job-1 -- go test ./...
  orchestrator exec job-1 -i -- sh < script.sh
  orchestrator exec job-1 -it -- vim main.go
  orchestrator exec job-1 -d -- make all`,
		ValidArgsFunction: a.completeIDs(false),
		PersistentPreRunE: loadedLater,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, command, err := a.commandAfterID(cmd, args)
			if err == nil && len(command) == 0 {
				err = usagef("%s needs an id and a command: the usage is %q", cmd.Name(), cmd.UseLine())
			}
			if err == nil {
				err = opts.check(cmd.Context(), a)
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
	inFlags(cmd, &opts)
	a.execFlags(cmd, &opts)
	flags.BoolVarP(&opts.detach, "detach", "d", false, "start the command, print its exec id and exit; with -i, standard input stays open for attach")
	flags.StringVar(&opts.id, "exec-id", "", "give the command the exec id `UUID`, of version 7 (default a new one)")
	return cmd
}

// check returns what is wrong with the options.
func (o *execOptions) check(ctx context.Context, a *app) error {
	if err := o.egress.check(ctx, a); err != nil {
		return err
	}
	switch {
	case o.timeout < 0:
		return usagef("--timeout %v is negative", o.timeout)
	case o.id != "" && !isExecID(o.id):
		return usagef("--exec-id %q is not a UUID of version 7 in lower case", o.id)
	case o.detach && o.egress.strict():
		return usagef("--detach ends exec, and with it the way out of the command: serve that with \"orchestrator egress\"")
	case !o.terminal || o.detach:
		return nil
	}
	return a.needsConsole(o.keys, "-t")
}

// newConsole returns a console for the terminal at standard input; nil if that is
// not a terminal.
func (a *app) newConsole(keys console.DetachKeys) *console.Console {
	return console.New(a.in, a.out, keys)
}

// needsConsole returns an error if there is no terminal to show a command's
// terminal in.
func (a *app) needsConsole(keys console.DetachKeys, what string) error {
	switch {
	case a.json():
		return usagef("%s shows a terminal, and cannot print JSON: leave out --output json", what)
	case a.newConsole(keys) == nil:
		return usagef("%s needs a terminal, but standard input is not one", what)
	}
	return nil
}

// inFlags are the flags that exec and shell share.
func inFlags(cmd *cobra.Command, opts *execOptions) {
	cmd.Flags().VarP((*flagvalue.Env)(&opts.env), "env", "e", "add to the command's environment; may be repeated")
	cmd.Flags().StringVarP(&opts.dir, "workdir", "w", "", "run in `DIR` (default the sandbox's workdir)")
	opts.egress = &egressFlags{}
	opts.egress.defineServe(cmd)
	opts.egress.defineRequire(cmd)
}

// execFlags are the flags that exec and run share.
func (a *app) execFlags(cmd *cobra.Command, opts *execOptions) {
	a.rawFlag(cmd)
	cmd.Flags().BoolVarP(&opts.interactive, "interactive", "i", false, "pass standard input to the command")
	cmd.Flags().BoolVarP(&opts.terminal, "tty", "t", false, "run the command in a terminal of its own, shown in this one (includes -i)")
	cmd.Flags().DurationVar(&opts.timeout, "timeout", 0, "end the command after `DURATION`, such as 90s (default never)")
	cmd.Flags().Var(&opts.limits, "ulimit", "limit a resource of the command, such as nofile=1024; may be repeated")
	keysFlag(cmd, &opts.keys)
}

// keysFlag defines the flag of the verbs that show a command's terminal.
func keysFlag(cmd *cobra.Command, keys *console.DetachKeys) {
	*keys = console.DefaultDetachKeys()
	cmd.Flags().Var(keys, "detach-keys", "the keys that leave a command in a terminal running; an empty flag means none")
	settings.Mark(cmd.Flags(), "detach-keys")
}

// commandAfterID returns the id and the command, either of which may be missing.
// cobra has parsed the flags up to the first word, which is the id. commandAfterID
// parses those after the id, and then loads the settings.
func (a *app) commandAfterID(cmd *cobra.Command, args []string) (id string, command []string, err error) {
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
	return id, args, a.loadSettings(cmd)
}

// loadedLater keeps settings from being loaded before [app.commandAfterID] has parsed
// all flags.
func loadedLater(*cobra.Command, []string) error { return nil }

// exec runs the command in the sandbox, and meanwhile serves the sandbox's way out if the
// options say so.
func (a *app) exec(ctx context.Context, sandbox *launcher.Sandbox, command []string, opts execOptions) error {
	if err := opts.egress.checkLevel(ctx, sandbox); err != nil {
		return err
	}
	if opts.detach || !opts.egress.asked() {
		return a.execAlone(ctx, sandbox, command, opts)
	}
	return a.withEgress(ctx, sandbox, opts.egress, opts.terminal, func() error {
		return a.execAlone(ctx, sandbox, command, opts)
	})
}

// execAlone runs the command in the sandbox, with the program's own streams. It kills the
// command when nobody reads the output any more, or when ctx ends.
func (a *app) execAlone(ctx context.Context, sandbox *launcher.Sandbox, command []string, opts execOptions) error {
	var t *console.Console
	var in io.Reader
	c := sandbox.Command(ctx, command[0], command[1:]...)
	c.ID, c.Dir, c.Env, c.Timeout, c.Rlimits = opts.id, opts.dir, opts.env, opts.timeout, opts.limits
	if opts.terminal {
		t = a.newConsole(opts.keys)
		c.Terminal = new(t.Size())
		c.Env = slices.Concat(terminalEnv(), opts.env)
	}
	switch {
	case opts.detach:
		return a.ifOutside(sandbox, command[0], a.execDetached(ctx, c, opts.interactive || opts.terminal))
	case opts.interactive:
		in = a.in
	}
	return a.ifOutside(sandbox, command[0], a.runAttached(ctx, sandbox, in, t, startOf(c)))
}

// startOf starts a command.
func startOf(c *podapi.Cmd) starter {
	return func(own console.Streams) (string, *podapi.Process, error) {
		c.Stdin, c.Stdout, c.Stderr = own.In, own.Out, own.Err
		err := c.Start()
		return c.ID, c.Process, err
	}
}

// terminalEnv tells a command in a terminal the type of the terminal that shows it.
func terminalEnv() []string {
	if name := os.Getenv("TERM"); name != "" {
		return []string{"TERM=" + name}
	}
	return nil
}

// execDetached starts a command and leaves it running, with its standard input open
// if input is set.
func (a *app) execDetached(ctx context.Context, c *podapi.Cmd, input bool) error {
	if input {
		if _, err := c.StdinPipe(); err != nil {
			return err
		}
	}
	if err := c.Start(); err != nil {
		return err
	}
	// A repeated start may find a command that has ended: Detach then fails, but the
	// command has started.
	_ = c.Process.Detach()
	err := a.print(struct {
		ID  string `json:"id"`
		PID int    `json:"pid"`
	}{c.ID, c.Process.PID()}, c.ID+"\n")
	// An interrupt before this point ends the command, as without --detach.
	return cmp.Or(err, context.Cause(ctx))
}
