package main

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"slices"

	"github.com/spf13/pflag"

	"github.com/podagent/podagent/cmd/orchestrator/internal/settings"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/remote"
)

// gatewayTokenEnv names the variable with the token of --gateway, without a file.
const gatewayTokenEnv = "PODAGENT_GATEWAY_TOKEN"

// remoteFlags say which gateway makes the sandboxes, and who calls it.
type remoteFlags struct {
	url, tokenFile, ca string
	allowHTTP          bool
	flags              *pflag.FlagSet // these flags
}

func (r *remoteFlags) define() *pflag.FlagSet {
	flags := pflag.NewFlagSet("remote", pflag.ContinueOnError)
	flags.StringVar(&r.url, "gateway", "", "the `URL` of the gateway of --backend remote, such as https://gateway.example.com")
	flags.StringVar(&r.tokenFile, "gateway-token-file", "", "the `FILE` with the token for the gateway, read for each request (default PODAGENT_GATEWAY_TOKEN in the environment)")
	flags.StringVar(&r.ca, "gateway-ca", "", "the `FILE` with the certificates that the gateway's must be signed by, in PEM (default the system's)")
	flags.BoolVar(&r.allowHTTP, "gateway-allow-http", false, "let the token, and all else, travel unencrypted to a gateway on another machine")
	settings.MarkFor(flags, throughGateway)
	r.flags = flags
	return flags
}

// remoteLauncher returns the launcher of the gateway that the flags name.
func (a *app) remoteLauncher() (*remote.Launcher, error) {
	r := &a.remote
	if err := notBlank(r.flags); err != nil {
		return nil, err
	}
	l := &remote.Launcher{URL: r.url, TokenFile: r.tokenFile, AllowHTTP: r.allowHTTP, Log: a.logger()}
	switch {
	case r.url == "":
		return nil, usagef("--backend remote needs --gateway URL")
	case r.tokenFile != "":
		if err := checkPrivate("the token", r.tokenFile); err != nil {
			return nil, usageError{err}
		}
	default:
		if l.Token = os.Getenv(gatewayTokenEnv); l.Token == "" {
			return nil, usagef("--backend remote needs a token: in the file of --gateway-token-file, or in %s", gatewayTokenEnv)
		}
	}
	if r.ca != "" {
		pem, err := os.ReadFile(r.ca)
		if err != nil {
			return nil, usageError{err}
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(pem) {
			return nil, usagef("%s %s has no certificate in PEM", settings.Origin(r.flags.Lookup("gateway-ca")), r.ca)
		}
		l.TLS = &tls.Config{RootCAs: roots}
	}
	return l, nil
}

// askedOfGateways are the flags of a pod that a gateway can be asked for.
var askedOfGateways = []string{
	"image", "volume", "workspace-size", "keep-workspace", "limits", "lifetime", "max-idle", "idle-ignores-commands", "ready-timeout", "pool",
}

// named returns those of the flags with these names.
func named(flags *pflag.FlagSet, names ...string) *pflag.FlagSet {
	some := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.VisitAll(func(f *pflag.Flag) {
		if slices.Contains(names, f.Name) {
			some.AddFlag(f)
		}
	})
	return some
}

// asked returns what the flags ask of a gateway. What they do not say is the gateway's to decide.
func (p *podFlags) asked() (pod launcher.Pod, take launcher.Take) {
	from := &p.pod
	pod = launcher.Pod{Volumes: from.Volumes, Lifetime: from.Lifetime, IdleTimeout: from.IdleTimeout, IdleIgnoresCommands: from.IdleIgnoresCommands}
	pod.Workspace.Size, pod.Workspace.Keep, pod.Resources.Limits = from.Workspace.Size, from.Workspace.Keep, from.Resources.Limits
	if settings.Given(p.flags.Lookup("image")) {
		pod.Image = from.Image
	}
	take.Pool = p.take.Pool
	if f := p.flags.Lookup("ready-timeout"); f != nil && settings.Given(f) {
		take.ReadyTimeout = p.take.ReadyTimeout
	}
	return pod, take
}
