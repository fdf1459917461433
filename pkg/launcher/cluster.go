package launcher

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync/atomic"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"

	"github.com/podagent/podagent/pkg/launcher/internal/execstream"
	"github.com/podagent/podagent/pkg/launcher/internal/portforward"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// namespaceFile tells a pod its own namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// cluster is a [Kubernetes] with its fields resolved.
type cluster struct {
	rest      *rest.Config // of api; nobody changes it
	api       kubernetes.Interface
	forward   *portforward.Dialer
	exec      *execstream.Dialer
	dialer    func(ctx context.Context, network, address string) (net.Conn, error)
	namespace string
	// connection is the requested way to agents; it may be empty.
	connection Connection
	identities *identities
	heart      *heart
	kept       keepers
	silent     silentPods
	starting   atomic.Int32 // how many pods are awaited
	// connectWarm is dialWarm.
	connectWarm func(context.Context, *corev1.Pod) (*warmConn, error)
	owner       string
	log         *slog.Logger
}

// cluster resolves the fields, only once, and returns the context to use the result
// with.
func (k *Kubernetes) cluster(ctx context.Context) (*cluster, context.Context, error) {
	r := k.resolving(ctx)
	if err := r.await(ctx); err != nil {
		return nil, ctx, err
	}
	return r.cluster, r.cluster.logged(ctx), nil
}

// resolution is the cluster that the fields name, or the reason why there is none.
// It is valid once done is closed.
type resolution struct {
	done    chan struct{}
	cluster *cluster
	err     error
}

// await waits for the resolution's end, or that of ctx.
func (r *resolution) await(ctx context.Context) error {
	select {
	case <-r.done:
		return r.err
	default:
	}
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return fmt.Errorf("cannot learn the identity: %w", context.Cause(ctx)) // only the identity takes time
	}
}

// resolving returns the present resolution, or begins one. All callers share it,
// since it may take calls of the API. A failed one is forgotten.
func (k *Kubernetes) resolving(ctx context.Context) *resolution {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.resolved != nil {
		return k.resolved
	}
	r := &resolution{done: make(chan struct{})}
	k.resolved = r
	go func() {
		defer close(r.done)
		if r.cluster, r.err = k.resolve(context.WithoutCancel(ctx)); r.err != nil {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.resolved = nil
		}
	}()
	return r
}

func (k *Kubernetes) resolve(ctx context.Context) (*cluster, error) {
	if err := k.validate(); err != nil {
		return nil, err
	}
	config, namespace, err := k.config()
	if err != nil {
		return nil, err
	}
	c := &cluster{namespace: namespace, connection: k.Connection, dialer: k.Dial, owner: cmp.Or(k.Owner, owner()), log: k.Log}
	c.connectWarm, c.heart = c.dialWarm, newHeart(c)
	if c.dialer == nil {
		c.dialer = new(net.Dialer).DialContext
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if c.forward, err = portforward.New(config); err != nil {
		return nil, err
	}
	if c.exec, err = execstream.New(config); err != nil {
		return nil, err
	}
	config.Timeout = cmp.Or(config.Timeout, callTimeout)
	c.rest = config
	if c.api, err = kubernetes.NewForConfig(compact(config)); err != nil {
		return nil, err
	}
	c.identities = newIdentities(
		func(ctx context.Context) (ring, error) { return k.ring(c.logged(ctx), c.api, namespace, config) },
		func(ctx context.Context) (ring, error) { return k.ringThere(c.logged(ctx), c.api, namespace, config) },
	)
	_, err = c.identities.fresh(ctx, 0)
	return c, err
}

// validate returns a *[SpecError] for the first field that is wrong.
func (k *Kubernetes) validate() error {
	if problems := validation.IsDNS1123Label(k.Namespace); k.Namespace != "" && len(problems) > 0 {
		return &SpecError{"Namespace", fmt.Sprintf("is %q: %s", k.Namespace, problems[0])}
	}
	if k.IdentitySecret != "" {
		namespace, name := secretPlace(k.IdentitySecret, "default")
		if problems := append(validation.IsDNS1123Label(namespace), validation.IsDNS1123Subdomain(name)...); len(problems) > 0 {
			return &SpecError{"IdentitySecret", fmt.Sprintf("is %q: %s", k.IdentitySecret, problems[0])}
		}
	}
	if k.APIRate < 0 || k.APIRate > maxAPIRate {
		return &SpecError{"APIRate", fmt.Sprintf("is %d: it is 0 to %d calls a second", k.APIRate, maxAPIRate)}
	}
	return checkConnection(k.Connection)
}

// secretPlace returns the namespace and name of the identity's Secret, which is in the
// sandboxes' namespace unless it says another.
func secretPlace(secret, sandboxes string) (namespace, name string) {
	if namespace, name, ok := strings.Cut(secret, "/"); ok {
		return namespace, name
	}
	return sandboxes, secret
}

// logged returns a context in which the Kubernetes client logs to our log. By
// default it writes to standard error, which a library must not do.
func (c *cluster) logged(ctx context.Context) context.Context {
	return klog.NewContext(ctx, logr.FromSlogHandler(c.log.Handler()))
}

// config returns the configuration for the API server, and the namespace.
func (k *Kubernetes) config() (*rest.Config, string, error) {
	config, namespace := k.Config, ""
	switch {
	case config != nil:
	case k.InCluster:
		var err error
		if config, err = rest.InClusterConfig(); err != nil {
			return nil, "", fmt.Errorf("cannot reach the cluster that this runs in: %w", err)
		}
		namespace = podNamespace()
	default:
		loader := k.loader()
		var err error
		if config, err = loader.ClientConfig(); err != nil {
			return nil, "", fmt.Errorf("cannot read the kubeconfig: %w", err)
		}
		if namespace, _, err = loader.Namespace(); err != nil {
			return nil, "", fmt.Errorf("cannot read the kubeconfig: %w", err)
		}
	}
	config = rest.CopyConfig(config)
	config.UserAgent = cmp.Or(config.UserAgent, "podagent/"+wire.Version())
	// The client's own limit is meant for controllers. It would slow down an
	// orchestrator that launches fifty sandboxes at once. The API server has its own
	// fairness.
	if rate := k.APIRate; rate > 0 || config.QPS == 0 && config.RateLimiter == nil {
		rate = cmp.Or(rate, apiRate)
		config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(float32(rate), 2*rate) // of all clients together
	}
	return config, cmp.Or(k.Namespace, namespace, "default"), nil
}

// compact returns a configuration for objects of Kubernetes' own, in the encoding that takes least
// time here and in the API server.
func compact(config *rest.Config) *rest.Config {
	if config.ContentType != "" {
		return config
	}
	config = rest.CopyConfig(config)
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return config
}

// loader reads kubeconfigs as kubectl does. In a pod without one, it uses the
// service account.
func (k *Kubernetes) loader() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = k.Kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: k.Context})
}

// podNamespace returns the namespace of the pod that this process runs in.
func podNamespace() string {
	data, _ := os.ReadFile(namespaceFile) // the file exists only in a pod
	return strings.TrimSpace(string(data))
}

// ring returns the versions of the identity that the fields name, and makes one if there is
// none.
func (k *Kubernetes) ring(ctx context.Context, client kubernetes.Interface, namespace string, config *rest.Config) (ring, error) {
	secret := k.secretIn(config)
	switch {
	case k.Identity != nil:
		return newRing([]keyVersion{{Identity: *k.Identity, number: 1}})
	case secret != "":
		return sharedIdentity(ctx, client, secret, namespace)
	}
	return identityFile(k.IdentityFile)
}

// ringThere returns the versions of the identity that the fields name, if there is one.
func (k *Kubernetes) ringThere(ctx context.Context, client kubernetes.Interface, namespace string, config *rest.Config) (ring, error) {
	var versions []keyVersion
	var err error
	secret := k.secretIn(config)
	switch {
	case k.Identity != nil:
		versions = []keyVersion{{Identity: *k.Identity, number: 1}}
	case secret != "":
		in, name := secretPlace(secret, namespace)
		versions, err = readIdentitySecret(ctx, client, in, name)
	default:
		var path string
		if path, err = identityPath(k.IdentityFile); err == nil {
			versions, err = readIdentity(path)
		}
	}
	if err != nil {
		return nil, err
	}
	return newRing(versions)
}

// secretIn returns the Secret with the identity; empty if it is in a file. In a pod, it is
// in the namespace of that pod by default: users who may create pods in the namespace of
// the sandboxes could read it there.
func (k *Kubernetes) secretIn(config *rest.Config) string {
	if k.IdentitySecret == "" && k.IdentityFile == "" && inPod(config) {
		return podNamespace() + "/" + DefaultIdentitySecret
	}
	return k.IdentitySecret
}

// inPod reports whether config uses the service account of the pod that this
// process runs in.
func inPod(config *rest.Config) bool {
	if config.BearerTokenFile == "" {
		return false
	}
	_, err := os.Stat(namespaceFile)
	return !errors.Is(err, fs.ErrNotExist)
}

// owner makes up a name for this orchestrator.
func owner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), strings.ToLower(rand.Text()[:6]))
}
