package launcher

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"

	"k8s.io/client-go/rest"

	"github.com/podagent/podagent/pkg/podapi"
)

// Kubernetes runs each sandbox in a pod of its own. The Kubernetes API is used
// for the pod's life only: everything else is one port-forward to the agent in
// it, over which gRPC and TLS run, with no listener on this side; or one
// connection by another way (see [Connection]). The permissions that it needs
// are those of deploy/rbac.yaml, with identity-rbac.yaml for an IdentitySecret,
// claims-rbac.yaml for what keeps its workspace, and exec-rbac.yaml for [ByExec].
//
// A pod gets its name from the sandbox's id. The id itself is the annotation
// podagent.dev/id, a safe form of it the label of that name; all pods have the
// label app.kubernetes.io/managed-by=podagent. A pod's workspace is an
// emptyDir, which outlives its container and ends with the pod, unless its Spec
// says otherwise: see [Workspace].
//
// Who holds the identity may call the agents that were launched with it; a
// pod contains the public half only. A pod that another identity launched is
// [ErrOtherKey].
//
// The zero value is ready to use: it takes the current context of the
// kubeconfig, or in a pod the service account. Fields must not be changed once
// a method was called.
type Kubernetes struct {
	// Config reaches the API server. If it is nil, it is made from Kubeconfig
	// and Context.
	Config *rest.Config
	// Kubeconfig is a file's path. Empty means $KUBECONFIG, then
	// ~/.kube/config, then the service account of the pod that this runs in.
	Kubeconfig string
	// Context is a context's name in the kubeconfig; empty is the current one.
	Context string
	// InCluster takes the service account of the pod that this runs in,
	// whatever kubeconfig there is.
	InCluster bool
	// Namespace holds the sandboxes. Empty means that of the context, or of
	// the pod that this runs in, or "default".
	Namespace string

	// Connection is the way to agents. Empty means [ByExec] for a pod whose
	// RuntimeClass has a name that begins with gvisor, runsc or kata, and else
	// [ByPortForward].
	Connection Connection
	// Dial connects to the addresses of pods, for [ByAddress]. If it is nil, it
	// is that of a zero [net.Dialer].
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Identity is by whom agents are called. If it is nil, it is the one of
	// IdentitySecret if that is set, else of IdentityFile.
	Identity *podapi.Identity
	// IdentityFile is the path of an identity's file, which is made on first
	// use. Empty means podagent/identity.pem in the user's configuration
	// directory. See [IdentityFile].
	IdentityFile string
	// IdentitySecret is the name of a Secret in the namespace, which is made
	// on first use: for orchestrators that share it. In a cluster, without
	// an IdentityFile, it is DefaultIdentitySecret. See [IdentitySecret].
	IdentitySecret string

	// Owner names this orchestrator to others, where a sandbox is taken
	// exclusively. Empty means the host's name, the process id and some
	// random letters.
	Owner string
	// Log gets what the launcher does; nil discards it.
	Log *slog.Logger

	mu       sync.Mutex
	resolved *resolution
}

var _ Launcher = (*Kubernetes)(nil)

// Launch implements Launcher. It creates the pod, or adopts the one that there
// is: if its agent answers to the identity, it is not being deleted, and it
// has not ended (see Take.OnStale). What the pod cannot start for is a
// [*PodError].
func (k *Kubernetes) Launch(ctx context.Context, spec Spec) (*Sandbox, error) {
	spec = spec.withImage()
	if err := spec.validatePod(); err != nil {
		return nil, err
	}
	deletes := spec.deletes()
	if spec.ID == "" {
		spec.ID = newID()
	}
	c, ctx, err := k.cluster(ctx)
	if err != nil {
		return nil, wrap("launching", spec.ID, err)
	}
	sandbox, err := c.launch(ctx, spec, deletes)
	if err != nil {
		return nil, wrap("launching", spec.ID, err)
	}
	return sandbox.endsBy(k), nil
}

// Open implements Launcher. It connects to a pod that runs; it does not start
// one that has ended. If there is no pod, but a workspace that was kept, the error
// is [ErrPaused]: see [Kubernetes.Resume].
func (k *Kubernetes) Open(ctx context.Context, id string) (*Sandbox, error) {
	c, ctx, err := k.cluster(ctx)
	if err != nil {
		return nil, wrap("opening", id, err)
	}
	sandbox, err := c.open(ctx, id)
	if err != nil {
		return nil, wrap("opening", id, err)
	}
	return sandbox.endsBy(k), nil
}

// List implements Launcher.
func (k *Kubernetes) List(ctx context.Context) ([]Summary, error) {
	c, ctx, err := k.cluster(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing sandboxes: %w", err)
	}
	list, err := c.list(ctx)
	if err != nil {
		err = fmt.Errorf("listing sandboxes: %w", err)
	}
	return list, err
}

// Terminate implements Launcher. It returns when the pod is gone, and the
// workspace that was kept. Claims of the Spec's Volumes stay.
func (k *Kubernetes) Terminate(ctx context.Context, id string) error {
	c, ctx, err := k.cluster(ctx)
	if err != nil {
		return wrap("terminating", id, err)
	}
	return wrap("terminating", id, c.terminate(ctx, id))
}
