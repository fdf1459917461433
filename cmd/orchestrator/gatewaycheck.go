package main

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"iter"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/agentsandbox"
)

// checkGateway checks what a gateway with these flags needs, and then all that its sandboxes do.
func (a *app) checkGateway(ctx context.Context, o *gatewayFlags, spec launcher.Spec) error {
	l, err := a.launcher()
	if err != nil {
		return err
	}
	spec.Egress = o.strictest(a, spec.Egress)
	sandboxes, err := a.findings(ctx, spec)
	if err != nil {
		return err
	}
	return a.printFindings(ctx, func(yield func(launcher.Finding) bool) {
		for f := range o.examine(ctx, a, l) {
			if !yield(f) {
				return
			}
		}
		sandboxes(yield)
	})
}

// examine makes the gateway's own checks. None needs another.
func (o *gatewayFlags) examine(ctx context.Context, a *app, l launcher.Launcher) iter.Seq[launcher.Finding] {
	checks := []struct {
		name string
		run  func(ctx context.Context) launcher.Finding
	}{
		{"listen address", func(context.Context) launcher.Finding { return o.checkListen() }},
		{"health address", func(context.Context) launcher.Finding { return o.checkHealth() }},
		{"limits", func(context.Context) launcher.Finding { return o.judgeLimits() }},
		{"certificate", func(context.Context) launcher.Finding { return o.checkCertificate(a) }},
		{"keys", func(ctx context.Context) launcher.Finding { return o.checkKeys(ctx, a) }},
		{"keys of links", func(context.Context) launcher.Finding { return o.checkLinkKeys() }},
		{"ways out", func(ctx context.Context) launcher.Finding { return o.checkEgress(ctx, a) }},
		{"audit log", func(context.Context) launcher.Finding { return o.audit.checkLog() }},
		{"key of the audit log", func(context.Context) launcher.Finding { return o.audit.checkKey() }},
		{"SSH", func(ctx context.Context) launcher.Finding { return o.ssh.checkSSH(ctx, a, l, o.keys) }},
		{"ledger", func(ctx context.Context) launcher.Finding { return checkLedger(ctx, ledgerOf(l)) }},
		{"reviews of tokens", func(ctx context.Context) launcher.Finding { return o.checkReviews(ctx, a) }},
		{"permission on persistentvolumeclaims", func(ctx context.Context) launcher.Finding { return checkClaims(ctx, l) }},
	}
	return func(yield func(launcher.Finding) bool) {
		for _, c := range checks {
			within, cancel := context.WithTimeout(ctx, checkTime)
			f := c.run(within)
			cancel()
			f.Name = c.name
			if ctx.Err() != nil || !yield(f) {
				return
			}
		}
	}
}

func passes(format string, args ...any) launcher.Finding {
	return launcher.Finding{Verdict: launcher.Passed, Detail: fmt.Sprintf(format, args...)}
}

func unchecked(detail string) launcher.Finding {
	return launcher.Finding{Verdict: launcher.NotChecked, Detail: detail}
}

func fails(err error, advice string) launcher.Finding {
	return launcher.Finding{Verdict: launcher.Failed, Err: err, Advice: advice}
}

func warns(err error, advice string) launcher.Finding {
	return launcher.Finding{Verdict: launcher.Warned, Err: err, Advice: advice}
}

func (o *gatewayFlags) checkListen() launcher.Finding {
	o.http.secure = o.cert != "" && o.certKey != ""
	if err := o.http.resolve("listen"); err != nil {
		return fails(err, "Give --tls-cert and --tls-key, or --allow-remote if a proxy before the gateway has TLS.")
	}
	return checkAddress(o.http.listen)
}

func (o *gatewayFlags) checkHealth() launcher.Finding {
	if o.health == "" {
		return unchecked("without --health-listen nobody can ask whether the gateway is ready")
	}
	address, err := resolveListener(o.http.flags.Lookup("health-listen"), o.health)
	if err != nil {
		return fails(err, "Give an address such as 0.0.0.0:8081.")
	}
	return checkAddress(address)
}

func (o *gatewayFlags) judgeLimits() launcher.Finding {
	if err := o.checkLimits(); err != nil {
		return fails(err, "Give at least 1 connection, and a delay of 0s or more.")
	}
	return passes("up to %d connections, and %v to serve on when told to end", o.connections, o.drainDelay)
}

// checkAddress listens for a moment.
func checkAddress(address *net.TCPAddr) launcher.Finding {
	listener, err := net.ListenTCP("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return warns(err, "If that is not this gateway, which runs already, choose another port.")
	case err != nil:
		return fails(err, "Choose an address of this machine, and a port that its user may listen at: 1024 or higher.")
	}
	_ = listener.Close()
	return passes("%s is free", address)
}

// checkCertificate says whether the certificate is one for the domain, and for how long.
func (o *gatewayFlags) checkCertificate(a *app) launcher.Finding {
	switch {
	case o.cert == "" && o.certKey == "":
		return unchecked("there is no --tls-cert: a proxy before the gateway has to provide TLS, unless only this machine calls")
	case o.cert == "" || o.certKey == "":
		return fails(errors.New("--tls-cert and --tls-key need each other"), "Give both.")
	}
	if err := checkPrivate("the certificate's key", o.certKey); err != nil {
		return fails(err, "Let no other user read the key.")
	}
	pair, err := loadPair(a, o.cert, o.certKey)
	if err != nil {
		return fails(err, "Put the certificate, those that lead to its issuer, and its key into the files, in PEM.")
	}
	loaded, _ := pair.Load()
	return o.judgeCertificate(loaded.Leaf, time.Now())
}

func (o *gatewayFlags) judgeCertificate(leaf *x509.Certificate, now time.Time) launcher.Finding {
	const renew = "Renew it: the files are read again."
	switch host := gateway.HostIn(o.domain); {
	case now.Before(leaf.NotBefore):
		return fails(fmt.Errorf("it is not valid before %s", leaf.NotBefore.Format(time.RFC3339)), "Look at the clocks of this machine and of the issuer.")
	case now.After(leaf.NotAfter):
		return fails(fmt.Errorf("it expired at %s", leaf.NotAfter.Format(time.RFC3339)), renew)
	case host != "" && leaf.VerifyHostname(host) != nil:
		_, domain, _ := strings.Cut(host, ".")
		return fails(leaf.VerifyHostname(host), fmt.Sprintf("Have it issued for *.%s, too: servers in sandboxes have hosts such as %s.", domain, host))
	case now.Add(renewBefore).After(leaf.NotAfter):
		return warns(fmt.Errorf("it expires at %s", leaf.NotAfter.Format(time.RFC3339)), renew)
	}
	return passes("it is for %s, until %s", strings.Join(leaf.DNSNames, ", "), leaf.NotAfter.Format(time.RFC3339))
}

// checkKeys says whether somebody can call.
func (o *gatewayFlags) checkKeys(ctx context.Context, a *app) launcher.Finding {
	switch {
	case o.keys == "" && o.http.tokenFile == "":
		return passes("the one tenant, %s, gets a token that is made up", soleTenant)
	case o.keys == "":
		if _, err := o.tenants(ctx, a); err != nil {
			return fails(err, "Put 16 bytes or more that nobody can guess into the file, which no other user may read.")
		}
		return passes("the one tenant is %s", soleTenant)
	case o.http.tokenFile != "":
		return fails(errors.New("--keys and --token-file exclude each other"), "Leave one of them out.")
	}
	if _, err := o.keyFile(a); err != nil {
		return fails(err, "Mend the file: see docs/gateway.md, Tenants. Nobody is let in meanwhile.")
	}
	return passes("the file has no mistakes")
}

func (o *gatewayFlags) checkLinkKeys() launcher.Finding {
	switch {
	case o.linkKeys == "" && o.domain == "":
		return unchecked("without --domain there are no links")
	case o.linkKeys == "":
		return warns(errors.New("links end with the gateway that made them"), "Give all gateways the same --link-key-file.")
	}
	if _, err := o.links(); err != nil {
		return fails(err, "Put secrets of 32 bytes or more into the file, one a line, and let no other user read it.")
	}
	return passes("they are long enough, and private")
}

// checkLedger changes a text that no tenant has, to nothing.
func checkLedger(ctx context.Context, l gateway.Ledger) launcher.Finding {
	if l == nil {
		return unchecked("this backend has none")
	}
	err := l.Amend(ctx, "doctor", func(context.Context, []byte) ([]byte, time.Time, error) { return nil, time.Time{}, nil })
	if err != nil {
		return fails(err, "Tenants with a quota or a budget get no sandboxes meanwhile. Apply deploy/rbac.yaml, or for the local backend, let this user write the state directory.")
	}
	return passes("it can be changed")
}

// checkReviews has the API server review a token that is nobody's.
func (o *gatewayFlags) checkReviews(ctx context.Context, a *app) launcher.Finding {
	if !o.accounts {
		return unchecked("without --service-accounts there are none")
	}
	t, err := o.serviceAccounts(ctx, a)
	if err != nil {
		return fails(err, "Mend the file of --keys, and the kubeconfig, first.")
	}
	client := t.(*gateway.ServiceAccounts).Client
	_, err = client.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: "nobody's", Audiences: []string{o.audience}},
	}, metav1.CreateOptions{})
	if err != nil {
		return fails(err, "Bind a ClusterRole to the gateway's account: {apiGroups: [authentication.k8s.io], resources: [tokenreviews], verbs: [create]}.")
	}
	return passes("the API server makes them")
}

// claimVerbs are what deploy/claims-rbac.yaml grants.
var claimVerbs = []string{"get", "list", "create", "patch", "delete"}

// checkClaims says whether callers may ask for sandboxes that are kept.
func checkClaims(ctx context.Context, l launcher.Launcher) launcher.Finding {
	k, ok := l.(*launcher.Kubernetes)
	if of, wraps := l.(*agentsandbox.Launcher); wraps {
		k, ok = of.Cluster, true
	}
	if !ok {
		return unchecked("this backend has none")
	}
	config, namespace, err := k.API(ctx)
	if err != nil {
		return fails(err, "Set KUBECONFIG, or --kubeconfig and --context.")
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fails(err, "Mend the kubeconfig.")
	}
	missing := slices.Clone(claimVerbs)
	missing = slices.DeleteFunc(missing, func(verb string) bool {
		r, askErr := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: namespace, Verb: verb, Resource: "persistentvolumeclaims",
			}},
		}, metav1.CreateOptions{})
		err = cmp.Or(err, askErr)
		return askErr == nil && r.Status.Allowed
	})
	switch {
	case err != nil:
		return warns(fmt.Errorf("cannot ask: %w", err), "It will show when somebody asks for a sandbox that is kept.")
	case len(missing) > 0:
		return warns(fmt.Errorf("missing: %s: no sandbox can be kept or pause by itself", strings.Join(missing, ", ")), "Apply deploy/claims-rbac.yaml if callers are to have such sandboxes.")
	}
	return passes("%s", strings.Join(claimVerbs, ", "))
}
