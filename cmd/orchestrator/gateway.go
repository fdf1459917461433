package main

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podagent/podagent/cmd/orchestrator/internal/serving"
	"github.com/podagent/podagent/cmd/orchestrator/internal/settings"
	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher"
)

const gatewayHelp = `Gateway serves sandboxes over HTTP, to callers of any language: their life, files,
searches and commands below /api/v1/sandboxes, described at /openapi.json, the tools of
"orchestrator mcp" at /mcp, in the sandbox of /mcp?sandbox=ID or one for each session, and requests to
servers in a sandbox by the headers X-Sandbox-ID and X-Sandbox-Port or, with --domain, by
host names: those are for browsers, too, and nothing else may be served below the domain.
With --e2b it serves E2B's SDKs, too, and with --agent-sandbox-router those of agent-sandbox.
With --ssh-listen it also serves SSH, to the keys that the file of --keys, or of
--ssh-authorized-keys, lists: ssh ID@HOST.
With --console people find a page about their sandboxes at /console.

Callers send a token as "Authorization: Bearer TOKEN". With --keys, a file says which
tenants have which tokens; a tenant sees its own sandboxes alone. With --service-accounts,
Kubernetes service accounts that it lists are let in, too, by tokens for the gateway's
audience. Without --keys there is one tenant: its token is in the file that --token-file
names, or gateway makes one up and prints it. Its sandboxes reach the hosts of --allow-host
and --credential by the gateway; with --keys the file says what each tenant's reach.

The flags of "orchestrator up" say what a new sandbox is like.

Gateway keeps nothing by itself: any number of them may serve the same sandboxes. They
stay when it ends. One of the gateways removes the pods and files of those that are over,
and keeps "orchestrator reap" from the others.`

// soleTenant is the tenant of a gateway without a file of keys.
const soleTenant = "main"

// tokenSize is the least size of a token, in bytes: one of 128 bits at random.
const tokenSize = 16

// gatewayFlags say how to serve.
type gatewayFlags struct {
	http     httpFlags
	keys     string
	madeUp   string // the token, if nobody gave one
	domain   string
	linkKeys string
	accounts bool
	audience string
	sweep    bool
	audit    auditFlags
	watched  telemetryFlags
	e2b      e2bFlags
	egress   *egressFlags // those of the one tenant, and of all sandboxes
	router   bool         // serve as agent-sandbox's router
	ssh      sshPortFlags

	console   bool
	consoleAt string // its origin on this machine; "" if others have names for it

	cert, certKey string
	pair          *serving.KeyPair // nil without TLS
	health        string
	healthAt      *net.TCPAddr // nil for none
	drainDelay    time.Duration
	connections   int
}

func gatewayCommand(a *app) *cobra.Command {
	var from *sandboxFlags
	var opts gatewayFlags
	var openAPI, check bool
	cmd := &cobra.Command{
		Use:   "gateway",
		Short: "Serve sandboxes over HTTP",
		Long:  gatewayHelp,
		Example: `  orchestrator gateway --backend local --listen 127.0.0.1:8080
  orchestrator gateway --allow-host github.com --credential GH_TOKEN@api.github.com
  orchestrator gateway --keys /etc/podagent/keys.yaml --domain sandboxes.example.com
  orchestrator gateway --keys /etc/podagent/keys.yaml --check`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if openAPI {
				text, err := gateway.OpenAPI()
				return errors.Join(err, a.printText(text))
			}
			if a.backend.Value == throughGateway {
				return usagef("a gateway is not for the remote backend, where it would only pass on to another")
			}
			opts.egress = &from.egress
			opts.leaveToKeys()
			spec, err := from.build(a)
			if err != nil {
				return err
			}
			if !settings.Given(cmd.Flag("log-level")) {
				a.logLevel.Value = "warn" // who runs it for others must see what goes wrong
			}
			if check {
				return a.checkGateway(cmd.Context(), &opts, spec)
			}
			return a.startGateway(cmd.Context(), &opts, spec)
		},
	}
	opts.define(cmd)
	cmd.Flags().BoolVar(&openAPI, "openapi", false, "print the description of the operations by OpenAPI, and serve nothing")
	cmd.Flags().BoolVar(&check, "check", false, "check everything that a gateway with these flags needs, as doctor does, and serve nothing")
	from = specFlags(cmd)
	from.egress.defineServe(cmd)
	from.egress.always = true
	return cmd
}

// startGateway serves sandboxes that are like spec until ctx ends.
func (a *app) startGateway(ctx context.Context, o *gatewayFlags, spec launcher.Spec) error {
	if err := o.check(a); err != nil {
		return err
	}
	l, err := a.launcher()
	if err != nil {
		return err
	}
	if err := o.checkOutward(ctx, a); err != nil {
		return err
	}
	tenants, err := o.tenants(ctx, a)
	if err != nil {
		return err
	}
	links, err := o.links()
	if err != nil {
		return usageError{err}
	}
	faces, err := o.faces(ctx, a)
	if err != nil {
		return err
	}
	options := gateway.Options{
		Faces: faces, Launcher: l, Tenants: tenants, Base: spec, Ledger: ledgerOf(l), Domain: o.domain, LinkKeys: links, Log: a.logger(),
		EgressPrivate: o.egress.private,
	}
	if o.sweep {
		if options.Leader, err = leaderOf(l, a.logger()); err != nil {
			return local(err)
		}
	}
	return a.serveGateway(ctx, o, options)
}

func (o *gatewayFlags) define(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.http.address, "listen", "127.0.0.1:8080", "serve at `[HOST]:PORT`; without HOST on the loopback, with port 0 at a free port")
	flags.BoolVar(&o.http.allowRemote, "allow-remote", false, "listen at an address that other machines can reach, without TLS")
	flags.StringVar(&o.http.tokenFile, "token-file", "", tokenFileUsage)
	flags.StringVar(&o.cert, "tls-cert", "", "serve by TLS with the certificate in this `FILE`, with those that lead to its issuer, in PEM; read again when it changes")
	flags.StringVar(&o.certKey, "tls-key", "", "the `FILE` with the key of --tls-cert, in PEM, which no other user may read")
	flags.StringVar(&o.health, "health-listen", "", "serve /healthz, /readyz and /metrics to operators at `[HOST]:PORT`, without TLS and tokens; without HOST on the loopback")
	flags.DurationVar(&o.drainDelay, "drain-delay", 0, "when told to end, serve on for this `DURATION`, in which balancers learn to send nobody here")
	flags.IntVar(&o.connections, "max-connections", maxConnections, "have at most `N` connections open")
	flags.StringVar(&o.keys, "keys", "", "the `FILE` with the tenants and their keys, read again when it changes")
	flags.BoolVar(&o.accounts, "service-accounts", false, "let in the Kubernetes service accounts that the file of --keys lists")
	flags.StringVar(&o.audience, "audience", gateway.DefaultAudience, "the `AUDIENCE` of service accounts' tokens")
	flags.StringVar(&o.domain, "domain", "", "serve the servers in sandboxes at the hosts PORT-ID--TENANT.`DOMAIN[:PORT]`, too: with localhost at the port of --listen, else by HTTPS, which a proxy has to provide without --tls-cert")
	flags.StringVar(&o.linkKeys, "link-key-file", "", "the `FILE` with the secrets that sign links to servers, one a line of 32 bytes or more, the newest first; the same for all gateways, read again when it changes (default one that is made up)")
	flags.BoolVar(&o.sweep, "sweep", true, "let one of the gateways over the same sandboxes remove what is over: see docs/gateway.md")
	settings.Mark(flags, "sweep", "listen", "allow-remote", "token-file", "keys", "service-accounts", "audience", "domain", "link-key-file",
		"tls-cert", "tls-key", "health-listen", "drain-delay", "max-connections")
	o.audit.define(cmd)
	o.watched.define(cmd)
	o.e2b.define(flags)
	o.ssh.define(cmd)
	flags.BoolVar(&o.router, "agent-sandbox-router", false, "serve agent-sandbox's clients, too, in the place of its router: see docs/gateway.md")
	flags.BoolVar(&o.console, "console", false, "serve a page for people at /console, who log in by a token: see docs/gateway.md")
	settings.Mark(flags, "agent-sandbox-router", "console")
	o.http.flags = flags
}

// check finds out where to listen, and whether the flags fit together.
func (o *gatewayFlags) check(a *app) (err error) {
	if (o.cert == "") != (o.certKey == "") {
		return usagef("--tls-cert and --tls-key need each other")
	}
	if err := errors.Join(o.checkLimits(), checkDomain(o.domain), o.ssh.check(o.keys)); err != nil {
		return err
	}
	if o.http.secure = o.cert != ""; o.http.secure {
		if o.pair, err = loadPair(a, o.cert, o.certKey); err != nil {
			return usageError{err}
		}
	}
	if err := o.http.resolve("listen"); err != nil || o.health == "" {
		return err
	}
	o.healthAt, err = resolveListener(o.http.flags.Lookup("health-listen"), o.health)
	return err
}

// checkLimits says what is wrong with the flags that are numbers.
func (o *gatewayFlags) checkLimits() error {
	switch {
	case o.drainDelay < 0:
		return usagef("--drain-delay %v is less than nothing", o.drainDelay)
	case o.connections < 1:
		return usagef("--max-connections %d is less than 1", o.connections)
	}
	return nil
}

// checkDomain says whether names below a domain can be the hosts of servers.
func checkDomain(domain string) error {
	_, port, err := net.SplitHostPort(domain)
	if err != nil { // there is no port
		port = "0"
	}
	_, err = strconv.ParseUint(port, 10, 16)
	host := strings.TrimSuffix(domain, ":"+port)
	if domain != "" && (err != nil || net.ParseIP(host) != nil || len(validation.IsDNS1123Subdomain(gateway.HostIn(domain))) > 0) {
		return usagef("--domain %q is not a name of DNS, with a port or without one", domain)
	}
	return nil
}

// loadPair returns a certificate, without mistakes at the start.
func loadPair(a *app, cert, key string) (*serving.KeyPair, error) {
	if err := checkPrivate("the certificate's key", key); err != nil {
		return nil, err
	}
	pair := &serving.KeyPair{CertFile: cert, KeyFile: key, Log: a.logger()}
	_, err := pair.Load()
	return pair, err
}
