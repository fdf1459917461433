// Package execstream runs a command in a pod, as "kubectl exec" does, and makes
// a [net.Conn] of its standard input and output. It is for pods whose ports
// cannot be forwarded, as under gVisor and Kata, and for a command that joins
// its streams to a socket in the pod.
//
//	dialer, err := execstream.New(config)
//	if err != nil { … }
//	conn, err := dialer.Dial(ctx, "default", "web-0", "web", "podagent", "connect")
//
// The API server is asked for a WebSocket first, and for SPDY if it, or a proxy
// before it, does not allow that. The command is in the request's URL, and so in
// audit logs: it must hold no secret.
//
// # What a connection promises
//
// It keeps the contract of net.Conn, deadlines included. Close ends the command's
// standard input; a command that keeps running loses its streams two seconds later.
// [io.EOF] means that the command exited with 0, or that a SPDY connection ended,
// which does not say how: the protocol above must detect a cut, as TLS does. If the
// command ended in any other way, the next Read returns an error with what the
// command wrote to standard error.
package execstream

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/podagent/podagent/pkg/launcher/internal/upgrade"
)

// Dialer runs commands in the pods of one cluster. Its methods may be called
// concurrently.
type Dialer struct {
	config *rest.Config
	pods   *rest.RESTClient
}

// New returns a dialer for the cluster of config, whose credentials, proxy and
// TLS settings it uses; like "kubectl exec", it does not use config's Dial and
// Transport. It makes no connection, and does not change config.
func New(config *rest.Config) (*Dialer, error) {
	own := rest.CopyConfig(config)
	own.APIPath, own.GroupVersion, own.NegotiatedSerializer = "/api", &corev1.SchemeGroupVersion, scheme.Codecs
	pods, err := rest.RESTClientFor(own) // for the URLs alone
	if err != nil {
		return nil, fmt.Errorf("cannot prepare commands in pods: %w", err)
	}
	return &Dialer{config: own, pods: pods}, nil
}

// Dial runs a command in a container of a pod. It returns when the API server has
// accepted the request, which is before the command runs: if the command cannot
// start, or fails, the first Read returns the error. Once Dial has returned, ctx
// has no further effect.
//
// When the API server refuses, the error is a
// [k8s.io/apimachinery/pkg/api/errors.StatusError], so that IsForbidden, IsNotFound
// and the like of that package tell the reason. WebSocket needs the verb "get" on
// pods/exec, and "create" in newer servers; SPDY needs only "create".
func (d *Dialer) Dial(ctx context.Context, namespace, pod, container string, command ...string) (net.Conn, error) {
	for _, name := range []string{namespace, pod} {
		if msgs := content.IsPathSegmentName(name); name == "" || len(msgs) > 0 {
			return nil, fmt.Errorf("cannot run a command in pod %q in namespace %q: invalid name %s", pod, namespace, strings.Join(msgs, ", "))
		}
	}
	c, err := d.open(ctx, d.url(namespace, pod, container, command), addr(namespace+"/"+pod))
	if err != nil {
		return nil, fmt.Errorf("cannot run %q in pod %s/%s: %w", strings.Join(command, " "), namespace, pod, err)
	}
	return c, nil
}

func (d *Dialer) url(namespace, pod, container string, command []string) *url.URL {
	return d.pods.Get().Namespace(namespace).Resource("pods").Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: container, Command: command, Stdin: true, Stdout: true, Stderr: true}, scheme.ParameterCodec).
		URL()
}

// open begins the request, and waits until the API server has accepted it.
func (d *Dialer) open(ctx context.Context, u *url.URL, remote addr) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	answers := &watcher{taken: make(chan struct{}, protocols)}
	executor, err := d.executor(u, answers)
	if err != nil {
		return nil, err
	}
	c := newConn(remote)
	go c.run(executor)
	select {
	case <-answers.taken:
		return c, nil
	case <-c.ended:
		return nil, cmp.Or(answers.refusal, c.failure())
	case <-ctx.Done():
		c.hangUp()
		return nil, ctx.Err()
	}
}

// executor returns the executor of the request, and watches its answers. Like
// kubectl, it decides when to fall back to SPDY.
func (d *Dialer) executor(u *url.URL, answers *watcher) (remotecommand.Executor, error) {
	config := rest.CopyConfig(d.config)
	config.Wrap(answers.watch)
	byWebSocket, err := remotecommand.NewWebSocketExecutor(config, http.MethodGet, u.String())
	if err != nil {
		return nil, err
	}
	bySPDY, err := remotecommand.NewSPDYExecutor(config, http.MethodPost, u)
	if err != nil {
		return nil, err
	}
	return remotecommand.NewFallbackExecutor(byWebSocket, bySPDY, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
}

// watcher sees the answers to requests for an upgrade.
type watcher struct {
	taken   chan struct{} // receives when an upgrade was granted
	refusal error         // the one to SPDY: client-go loses its class
}

func (w *watcher) watch(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(req)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode != http.StatusSwitchingProtocols {
			defer func() { _ = resp.Body.Close() }()
			resp.Request = req
			w.refusal = upgrade.Refusal(resp, "pods/exec")
			return nil, w.refusal
		}
		w.taken <- struct{}{}
		return resp, nil
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// addr is the address of a pod, as namespace/pod.
type addr string

func (addr) Network() string  { return "exec" }
func (a addr) String() string { return string(a) }
