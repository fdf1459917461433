package main

import (
	"context"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podagent/podagent/cmd/orchestrator/internal/flagvalue"
	"github.com/podagent/podagent/cmd/orchestrator/internal/settings"
	"github.com/podagent/podagent/pkg/egress"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi/wayout"
	"github.com/podagent/podagent/pkg/tools/secret"
)

// egressFlags say how commands leave a sandbox.
type egressFlags struct {
	rules   flagvalue.Rules
	private flagvalue.Prefixes
	given   []string // of --credential
	secrets []egress.Secret
	require flagvalue.Choice
	mode    flagvalue.Choice
	ports   flagvalue.Ports
	flags   *pflag.FlagSet // those of these that the verb has
	always  bool           // the verb serves without rules, too
}

// defineServe defines the flags for serving a sandbox's way out.
func (e *egressFlags) defineServe(cmd *cobra.Command) {
	flags := pflag.NewFlagSet("egress", pflag.ContinueOnError)
	flags.Var(&e.rules, "allow-host", "let commands reach these hosts by the proxy of their sandbox, and no others: a name, *.NAME, an address, a CIDR or *, without PORT by 80 and 443; or @NAME, such as @vscode, those that an editor's server downloads from; may be repeated")
	flags.StringArrayVar(&e.given, "credential", nil, credentialHelp)
	flags.Var(&e.private, "egress-private", privateHelp)
	e.add(cmd, flags, nil)
}

// privateHelp is that of the gateway's flag, too.
const privateHelp = "addresses that sandboxes reach only by a rule that names them, as those do that are private everywhere: the pods and services of a cluster, say; may be repeated"

// defineRequire defines the flag for what a sandbox must have.
func (e *egressFlags) defineRequire(cmd *cobra.Command) {
	e.require = flagvalue.NewChoice(wayout.Landlock, wayout.Network)
	e.require.Value = "" // nothing
	flags := pflag.NewFlagSet("egress", pflag.ContinueOnError)
	flags.Var(&e.require, "egress-require", "fail unless the kernel (landlock) or the network leaves commands no way out of their sandbox but its proxy")
	e.add(cmd, flags, map[string]*flagvalue.Choice{"egress-require": &e.require})
}

// defineLaunch defines the flags for a new sandbox.
func (e *egressFlags) defineLaunch(cmd *cobra.Command) {
	e.mode = flagvalue.NewChoice(wayout.Off, wayout.Auto, wayout.Mode(wayout.Advisory), wayout.Mode(wayout.Landlock), wayout.Mode(wayout.Network))
	e.mode.Value = "" // the default depends on other flags
	e.defineRequire(cmd)
	flags := pflag.NewFlagSet("egress", pflag.ContinueOnError)
	flags.Var(&e.mode, "egress", "what leaves commands of a new sandbox no way out but its proxy: variables that name it, the kernel (landlock), the pod's network, or the strongest of these that there is (default auto with flags that serve or require a way out, else off)")
	flags.Var(&e.ports, "local-port", "a port that commands of a new sandbox may connect to where the kernel fences them off: that of a server in the sandbox; may be repeated")
	e.add(cmd, flags, map[string]*flagvalue.Choice{"egress": &e.mode})
}

// add adds flags to a verb.
func (e *egressFlags) add(cmd *cobra.Command, flags *pflag.FlagSet, choices map[string]*flagvalue.Choice) {
	settings.MarkFor(flags, inKubernetes, inAgentSandbox, onThisHost)
	if e.flags == nil {
		e.flags = pflag.NewFlagSet("egress", pflag.ContinueOnError)
	}
	e.flags.AddFlagSet(flags)
	cmd.Flags().AddFlagSet(flags)
	for name, c := range choices {
		// The only possible error is an unknown flag.
		_ = cmd.RegisterFlagCompletionFunc(name, c.Complete)
	}
	for _, name := range []string{"allow-host", "credential", "egress-private", "local-port"} {
		if flags.Lookup(name) != nil {
			_ = cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
		}
	}
}

// check returns what is wrong with the flags, and gets the secrets.
func (e *egressFlags) check(ctx context.Context, a *app) (err error) {
	if err := a.fits(e.flags); err != nil {
		return err
	}
	if e.flags.Lookup("egress-private").Changed && !e.asked() && !e.always {
		return usagef("--egress-private needs --allow-host or --credential: without a rule nothing is reached")
	}
	if e.secrets, err = credentials(ctx, e.given); err != nil {
		return usagef("%s: %w", settings.Origin(e.flags.Lookup("credential")), err)
	}
	return nil
}

// checkUp is check for a verb that leaves serving to others.
func (e *egressFlags) checkUp(ctx context.Context, a *app) error {
	if e.strict() && e.mode.Value == string(wayout.Off) {
		return usagef("%s is off, so there is nothing to serve: leave it out, or give --allow-host and --credential to \"orchestrator exec\"", settings.Origin(e.flags.Lookup("egress")))
	}
	return e.check(ctx, a)
}

// asked reports whether this program is to serve the way out.
func (e *egressFlags) asked() bool { return len(e.rules) > 0 || len(e.given) > 0 }

// strict reports whether the rules of this program must be those that hold: they are on its
// command line. Those of a setting are for whoever serves.
func (e *egressFlags) strict() bool {
	return slices.ContainsFunc([]string{"allow-host", "credential"}, func(name string) bool { return e.flags.Lookup(name).Changed })
}

// build returns by which ways commands may leave a new sandbox.
func (e *egressFlags) build(a *app) (way wayout.Config, err error) {
	way = wayout.Config{Mode: wayout.Mode(e.mode.Value), Require: e.required(), Ports: e.ports}
	if way.Mode == "" && e.asked() {
		way.Mode = wayout.Auto
	}
	open := way.Mode == wayout.Off || way.Mode == "" && way.Require == wayout.Open
	if open && !e.flags.Lookup("local-port").Changed {
		way.Ports = nil // a setting is for the sandboxes that have a fence
	}
	return way, a.fits(e.flags)
}

// required returns the least level that will do.
func (e *egressFlags) required() wayout.Level { return wayout.Level(e.require.Value) }

// policy returns what may be reached: what a rule allows, and the hosts of the credentials.
func (e *egressFlags) policy(more ...egress.Rule) egress.Policy {
	allow := append(more, e.rules...)
	for _, s := range e.secrets {
		allow = append(allow, s.Hosts...)
	}
	return egress.Policy{Allow: allow}
}

// providers returns those of the credentials' values.
func (e *egressFlags) providers() map[string]secret.Provider {
	all := map[string]secret.Provider{}
	for _, s := range e.secrets {
		all[s.Name] = s.Provider()
	}
	return all
}

// checkLevel returns an error if less is kept from commands than was required.
func (e *egressFlags) checkLevel(ctx context.Context, sandbox *launcher.Sandbox) error {
	if e.required() == wayout.Open {
		return nil
	}
	return sandbox.RequireEgress(ctx, e.required())
}
