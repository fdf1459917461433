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

// Kubernetes runs each sandbox in a pod. It uses the Kubernetes API for the life of pods
// only: files, commands and ports go by gRPC and TLS over one connection to the agent
// (see [Connection]). It needs the permissions of deploy/rbac.yaml, of identity-rbac.yaml
// for an IdentitySecret, claims-rbac.yaml for kept workspaces, exec-rbac.yaml for [ByExec].
//
// A pod's name is made from the sandbox's id; package podmeta names its labels and
// annotations. Its workspace is an emptyDir, which ends with the pod, unless the Spec says
// otherwise: see [Workspace]. Its agent answers only the identity that launched it; another
// gets [ErrOtherKey]. The zero value is ready to use. Fields must not change after a call.
type Kubernetes struct {
	Config     *rest.Config // reaches the API server; if it is nil, the next three say how
	Kubeconfig string       // a path; empty means $KUBECONFIG, ~/.kube/config, or a pod's account
	Context    string       // a context's name in the kubeconfig; empty is the current one
	InCluster  bool         // takes the service account of this pod, whatever kubeconfig there is
	Namespace  string       // holds the sandboxes; empty means the context's, this pod's, or "default"
	APIRate    int          // calls a second to the API server, twice as many at once; 0: Config's, or 500

	// Connection is the way to agents. Empty: [ByExec] for RuntimeClasses gvisor*, runsc*, kata*, else [ByPortForward].
	Connection Connection
	Dial       func(ctx context.Context, network, address string) (net.Conn, error) // for [ByAddress]; nil: a zero [net.Dialer]'s

	// Identity calls agents. Nil means that of the IdentitySecret, else the IdentityFile.
	Identity *podapi.Identity
	// IdentityFile is a file of PKCS#8 in PEM, made on first use, that only its owner may
	// read. Empty means podagent/identity.pem in [os.UserConfigDir].
	IdentityFile string
	// IdentitySecret is the NAME or NAMESPACE/NAME of a Secret, for orchestrators that share it: see [IdentitySecret].
	// In a pod, without an IdentityFile, empty means DefaultIdentitySecret in the pod's own namespace; elsewhere none.
	IdentitySecret string

	// Owner names this orchestrator to others that want a sandbox of its own. Empty: host, process id, random letters.
	Owner string
	Log   *slog.Logger // gets what the launcher does; nil discards it

	mu       sync.Mutex
	resolved *resolution
}

var _ Launcher = (*Kubernetes)(nil)

// Launch implements Launcher. It creates the pod, or adopts one that accepts the
// identity and has not ended (see Take). If it cannot start: a [*PodError].
func (k *Kubernetes) Launch(ctx context.Context, spec Spec) (*Sandbox, error) {
	spec = spec.withImage()
	if err := spec.validatePod(); err != nil {
		return nil, err
	}
	deletes := spec.deletes()
	if spec.ID == "" {
		spec.ID, spec.isNew = newID(), true
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

// Open implements Launcher. It creates no pod: a paused sandbox is [ErrPaused], and
// one whose pod has ended is [ErrStale]. See [Kubernetes.Resume].
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

// Terminate implements Launcher. It also removes a workspace that was kept, but not
// the claims of the Spec's Volumes.
func (k *Kubernetes) Terminate(ctx context.Context, id string) error {
	c, ctx, err := k.cluster(ctx)
	if err != nil {
		return wrap("terminating", id, err)
	}
	return wrap("terminating", id, c.terminate(ctx, id))
}

// API returns how to reach the API server, and the sandboxes' namespace.
func (k *Kubernetes) API(ctx context.Context) (config *rest.Config, namespace string, err error) {
	c, _, err := k.cluster(ctx)
	if err != nil {
		return nil, "", err
	}
	return rest.CopyConfig(c.rest), c.namespace, nil
}
