package main

import (
	"context"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/cmd/orchestrator/internal/flagvalue"
	"github.com/podagent/podagent/cmd/orchestrator/internal/settings"
)

// rootHelp returns the program's help.
func rootHelp() string {
	return `Orchestrator makes sandboxes for untrusted work. It runs commands in them, and
reads, writes and searches their files. You choose the id of a sandbox. Every
process that uses this id gets the same sandbox with the same files, until you
take it down.

A sandbox is a pod in Kubernetes: "orchestrator doctor" checks everything that it
needs. With --backend agent-sandbox, the controller of that project makes the pods.
The local backend runs the agent on this machine, which --isolation keeps from the rest
of it. With --backend remote, a gateway makes the sandboxes ("orchestrator gateway"): that takes its URL and a
token, and no rights in a cluster.

Flags that say where and how sandboxes run are settings: you can also give them in
the environment (PODAGENT_IMAGE for --image) or in a configuration file (--config).
"orchestrator settings" lists them, and where their values come from. These can
only be in the environment:
` + settings.EnvironmentHelp() + "\n" + exitHelp
}

// rootCommand returns the whole command line.
func rootCommand(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:                        "orchestrator",
		Short:                      "Make sandboxes and work in them",
		Long:                       rootHelp(),
		SilenceErrors:              true,
		SuggestionsMinimumDistance: 2,
		SilenceUsage:               true,
		Args:                       noSuchVerb,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	persistentFlags(a, root)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef(`%w: see "%s --help"`, err, cmd.CommandPath())
	})
	root.AddCommand(
		upCommand(a), downCommand(a), listCommand(a), describeCommand(a), reapCommand(a),
		pauseCommand(a), resumeCommand(a), extendCommand(a), identityCommand(a), poolCommand(a), agentSandboxCommand(a),
		runCommand(a), execCommand(a), shellCommand(a),
		psCommand(a), statsCommand(a), attachCommand(a), logsCommand(a), waitCommand(a), killCommand(a),
		catCommand(a), putCommand(a), editCommand(a),
		lsCommand(a), statCommand(a), mkdirCommand(a), rmCommand(a), mvCommand(a), cpCommand(a),
		globCommand(a), grepCommand(a), watchCommand(a),
		checkpointCommand(a), checkpointsCommand(a), diffCommand(a), restoreCommand(a), forkCommand(a), exportCommand(a), importCommand(a),
		forwardCommand(a), sshCommand(a), sshConfigCommand(a), codeCommand(a), egressCommand(a),
		toolCommand(a), mcpCommand(a), gatewayCommand(a), consoleCommand(a), auditCommand(a),
		versionCommand(a), doctorCommand(a), settingsCommand(a),
	)
	a.loadFirst(root)
	return root
}

func persistentFlags(a *app, root *cobra.Command) {
	a.backend = flagvalue.NewChoice(inKubernetes, inAgentSandbox, onThisHost, throughGateway)
	a.output = flagvalue.NewChoice("text", "json")
	a.logLevel = flagvalue.NewChoice("off", "debug", "info", "warn", "error")
	flags := root.PersistentFlags()
	flags.Var(&a.backend, "backend", "where sandboxes run")
	flags.VarP(&a.output, "output", "o", "print text, or JSON lines")
	flags.AddFlagSet(a.cluster.define())
	flags.AddFlagSet(a.remote.define())
	flags.AddFlagSet(a.local.define())
	flags.Var(&a.logLevel, "log-level", "write log messages of this level and above to standard error; gateway writes warnings unless this is given")
	settings.Mark(flags, "backend", "output", "log-level")
	settings.DefineConfig(flags)
	for name, c := range map[string]*flagvalue.Choice{"backend": &a.backend, "output": &a.output, "log-level": &a.logLevel, "connection": &a.cluster.connection, "isolation": &a.local.isolation} {
		// The only possible error is an unknown flag.
		_ = root.RegisterFlagCompletionFunc(name, c.Complete)
	}
}

func noSuchVerb(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return usagef("unknown verb %q: did you mean %s?", args[0], strings.Join(near, " or "))
	}
	return usagef(`unknown verb %q: see "orchestrator --help"`, args[0])
}

// takes checks that a verb gets at least min arguments, and at most max unless that is
// negative. Its error gives the synopsis.
func takes(min, max int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= min && (max < 0 || len(args) <= max) {
			return nil
		}
		return usagef("%s got %d arguments: the usage is %q", cmd.Name(), len(args), cmd.UseLine())
	}
}

// completeIDs completes the first argument to the ids of existing sandboxes, or all
// arguments if every is set.
func (a *app) completeIDs(every bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 && !every {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.ids(cmd.Context()), cobra.ShellCompDirectiveNoFileComp
	}
}

// ids returns the ids of sandboxes that a shell can take as words.
func (a *app) ids(ctx context.Context) []string {
	l, err := a.launcher()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completeTimeout)
	defer cancel()
	list, _ := l.List(ctx) // completion offers what it can
	var ids []string
	for _, s := range list {
		if strings.IndexFunc(s.ID, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }) < 0 {
			ids = append(ids, s.ID)
		}
	}
	return ids
}
