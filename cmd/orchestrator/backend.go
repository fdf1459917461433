package main

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/spf13/pflag"

	"github.com/podagent/podagent/cmd/orchestrator/internal/flagvalue"
	"github.com/podagent/podagent/cmd/orchestrator/internal/settings"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/agentsandbox"
)

// The values of --backend.
const (
	inKubernetes   = "kubernetes"
	inAgentSandbox = "agent-sandbox"
	onThisHost     = "local"
	throughGateway = "remote"
)

// clusterFlags say which cluster and namespace have the sandboxes, and which
// identity calls their agents.
type clusterFlags struct {
	kubeconfig, context string
	inCluster           bool
	namespace           string
	identity, secret    string
	connection          flagvalue.Choice
	rate                int
	flags               *pflag.FlagSet // these flags
}

func (c *clusterFlags) define() *pflag.FlagSet {
	flags := pflag.NewFlagSet("cluster", pflag.ContinueOnError)
	flags.StringVar(&c.kubeconfig, "kubeconfig", "", "the kubeconfig `FILE` (default kubectl's)")
	flags.StringVar(&c.context, "context", "", "the `NAME` of a context in the kubeconfig (default the current one)")
	flags.BoolVar(&c.inCluster, "in-cluster", false, "use the service account of the pod that runs this program")
	flags.StringVarP(&c.namespace, "namespace", "n", "", "the `NAMESPACE` of the sandboxes (default that of the context, or of the pod that runs this program)")
	flags.StringVar(&c.identity, "identity", "", "the `FILE` with the key that the agents accept (default podagent/identity.pem in the configuration directory, made on first use)")
	flags.StringVar(&c.secret, "identity-secret", "", "the `[NAMESPACE/]NAME` of the Secret with this key, made on first use (default podagent-identity, for the service account of a pod in the namespace of that pod, without --identity)")
	for _, way := range launcher.Connections() {
		c.connection.Words = append(c.connection.Words, string(way))
	}
	flags.Var(&c.connection, "connection", "how to reach the agents of pods (default port-forward; exec if the RuntimeClass is gVisor's or Kata's)")
	flags.IntVar(&c.rate, "api-rate", 0, "at most `N` calls a second to the API server, and twice as many at once (default 500)")
	settings.MarkFor(flags, inKubernetes, inAgentSandbox)
	settings.Exclude(flags, "in-cluster", "kubeconfig", "context")
	settings.Exclude(flags, "identity", "identity-secret")
	c.flags = flags
	return flags
}

func (c *clusterFlags) check() error {
	if err := settings.CheckExclusions(c.flags); err != nil {
		return usageError{err}
	}
	return nil
}

// launcher returns the launcher that the flags choose.
func (a *app) launcher() (launcher.Launcher, error) {
	if err := errors.Join(a.fits(a.cluster.flags), a.fits(a.remote.flags), a.fits(a.local.flags)); err != nil {
		return nil, err
	}
	switch a.backend.Value {
	case onThisHost:
		return a.localLauncher()
	case throughGateway:
		return a.remoteLauncher()
	}
	k, err := a.kubernetes()
	if err != nil {
		return nil, err
	}
	if a.backend.Value == inAgentSandbox {
		return &agentsandbox.Launcher{Cluster: k}, nil
	}
	return k, nil
}

func (a *app) kubernetes() (*launcher.Kubernetes, error) {
	c := &a.cluster
	if err := c.check(); err != nil {
		return nil, err
	}
	return &launcher.Kubernetes{
		Kubeconfig: c.kubeconfig, Context: c.context, InCluster: c.inCluster, Namespace: c.namespace,
		Connection: launcher.Connection(c.connection.Value), IdentityFile: c.identity, IdentitySecret: c.secret, APIRate: c.rate, Log: a.logger(),
	}, nil
}

// podLauncher is a launcher whose sandboxes are pods, as far as it knows.
type podLauncher interface {
	launcher.Launcher
	Pause(ctx context.Context, id string) error
	Resume(ctx context.Context, id string) (*launcher.Sandbox, error)
	Extend(ctx context.Context, id string, d time.Duration) (time.Time, error)
	Check(ctx context.Context, spec launcher.Spec) iter.Seq[launcher.Finding]
}

// podLauncher returns the launcher for a verb that is only for pods.
func (a *app) podLauncher(verb string) (podLauncher, error) {
	l, err := a.launcher()
	if err != nil {
		return nil, err
	}
	p, ok := l.(podLauncher)
	if !ok {
		return nil, usagef("%s is for sandboxes in pods, and the %s backend has none", verb, a.backend.Value)
	}
	return p, nil
}

// pods returns the launcher for a verb that is only for pods which it makes itself.
func (a *app) pods(verb string) (*launcher.Kubernetes, error) {
	l, err := a.podLauncher(verb)
	if err != nil {
		return nil, err
	}
	k, ok := l.(*launcher.Kubernetes)
	if !ok {
		return nil, usagef("%s is not for the backend %s: use --backend kubernetes", verb, a.backend.Value)
	}
	return k, nil
}

// fits returns an error if one of these flags was given, but is not for the backend.
func (a *app) fits(flags *pflag.FlagSet) error {
	var err error
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Changed || err != nil || settings.IsFor(f, a.backend.Value) {
			return
		}
		switch {
		case settings.IsFor(f, inKubernetes) && a.backend.Value == onThisHost:
			err = usagef("--%s is not for the local backend, which makes no pods: leave it out, or use --backend kubernetes", f.Name)
		case settings.IsFor(f, inKubernetes):
			err = usagef("--%s is not for the remote backend, whose gateway decides it: leave it out", f.Name)
		case settings.IsFor(f, onThisHost):
			err = usagef("--%s is only for --backend local", f.Name)
		default:
			err = usagef("--%s is only for --backend remote", f.Name)
		}
	})
	return err
}
