package main

import (
	"cmp"
	"context"
	"errors"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/cmd/orchestrator/internal/console"
	"github.com/podagent/podagent/pkg/egress"
	"github.com/podagent/podagent/pkg/launcher"
)

const egressHelp = `Egress serves the way out of a sandbox: commands get a proxy in their environment
(HTTP_PROXY and the like), whose connections come to this program. It looks up names,
allows what the rules of --allow-host and --allow-file name, and refuses the rest. With
--credential, requests to some hosts get a secret that the sandbox never has. It runs
until you interrupt it, and then exits with 0, or until the sandbox is gone.

A rule is HOST[=ADDRESS][:PORT[,PORT...]]: a name, *.NAME, an address, a CIDR, or *. It
is for the ports 80 and 443 unless it has others; the port * is all. Names of private
addresses, those of --egress-private among them, are refused, unless a rule has the
address, as in db=10.0.0.7:5432. The rule @NAME allows what the server of an editor downloads
from: @cursor, @jetbrains, @vscode, @vscodium, @windsurf or @zed.

The secret of --credential comes from the variable NAME, another one (=env:VARIABLE), or a
file (=file:FILE), of this program. Options are prefix=TEXT, which begins the placeholder,
for programs that look at a token's form; path=PATH, a file of the sandbox that gets it in
place of the variable; and header=NAME, the only header that gets the secret. The hosts are
rules, and allowed.

Egress prints a line when it begins to serve, when it stands by because another program
serves, and for each decision. With -o json, these are {"type":"serving","port":...},
{"type":"standby"}, {"type":"decision","verdict":"denied","host":"example.com",...}, and,
as the file changes, {"type":"rules","rules":[...]}.

Only a sandbox that was launched with --egress keeps its commands from other ways out:
see "orchestrator describe".`

// egressOptions say how to serve.
type egressOptions struct {
	egressFlags
	file allowFile
}

func egressCommand(a *app) *cobra.Command {
	var opts egressOptions
	cmd := &cobra.Command{
		Use:   "egress ID",
		Short: "Serve the way out of a sandbox: to some hosts, with credentials",
		Long:  egressHelp,
		Example: `  orchestrator egress job-1 --allow-host api.github.com --allow-host '*.githubusercontent.com'
  orchestrator egress job-1 --allow-file hosts.txt -o json
  orchestrator egress job-1 --credential GH_TOKEN,prefix=ghp_@github.com,api.github.com`,
		Args:              takes(1, 1),
		ValidArgsFunction: a.completeIDs(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			if a.backend.Value == throughGateway {
				return usagef("egress is not for the remote backend, whose gateway serves the way out of its sandboxes")
			}
			if err := cmp.Or(opts.check(cmd.Context(), a), opts.file.check(cmd.Flag("allow-file"))); err != nil {
				return err
			}
			rules, err := opts.file.read()
			if err != nil {
				return usagef("--allow-file: %w", err)
			}
			return a.open(cmd.Context(), args[0], func(sandbox *launcher.Sandbox) error {
				return a.egress(cmd.Context(), sandbox, &opts, rules)
			})
		},
	}
	opts.always = true
	opts.defineServe(cmd)
	opts.defineRequire(cmd)
	cmd.Flags().StringVar(&opts.file.path, "allow-file", "", "allow what the rules in `FILE` name, too: one a line, after # a comment; it is read again when it changes")
	return cmd
}

// egress serves the way out of the sandbox until ctx ends or the sandbox is gone. The file has
// these rules at first.
func (a *app) egress(parent context.Context, sandbox *launcher.Sandbox, opts *egressOptions, rules []egress.Rule) error {
	if err := opts.checkLevel(parent, sandbox); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	events := egressEvents{ctx: ctx, events: make(chan egressEvent)}
	server, err := opts.serve(ctx, sandbox, egress.Options{Policy: opts.policy(rules...), Log: events.decided, Changed: events.changed})
	if err != nil {
		return err
	}
	defer server.Close()
	a.sayLevel(sandbox)
	go func() { cancel(a.awaitGone(ctx, sandbox)) }()
	go func() {
		<-server.Done()
		cancel(server.Close())
	}()
	go opts.file.follow(ctx, func(rules []egress.Rule, err error) {
		if err != nil {
			a.note("--allow-file: %v: the rules stay as they are", err)
			return
		}
		server.SetPolicy(opts.policy(rules...))
		events.ruled(rules)
	})
	err = a.printEvents(ctx, events.events)
	if asked, ok := errors.AsType[*console.SignalError](err); ok && (asked.Signal == syscall.SIGINT || asked.Signal == syscall.SIGTERM) {
		return nil
	}
	return err
}
