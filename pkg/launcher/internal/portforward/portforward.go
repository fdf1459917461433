// Package portforward connects to ports of pods through the Kubernetes API,
// as "kubectl port-forward" does, but with a [net.Conn] in place of a local
// listener.
//
//	dialer, err := portforward.New(config)
//	if err != nil { … }
//	conn, err := dialer.Dial(ctx, "default", "web-0", 8080)
//
// # What is on the wire
//
// The client asks the API server to upgrade a request on the pod's portforward
// subresource. The server then hands the bytes on to the node. They are frames of
// SPDY version 3.1. Each connection opens two streams: one for the data, and one for
// an error text, by which the node says that it could not reach the port or lost it.
// The frames travel in the messages of a WebSocket. If the server or a proxy does not
// let one through, they travel on the upgraded connection itself.
//
// A connection to the API server has only this one pair of streams, because the
// protocol has no flow control between streams: a stream that nobody reads would hold
// up the others.
//
// # What a connection promises
//
// It keeps the contract of net.Conn, deadlines included. A write is copied once, into
// a buffer of 32 KiB. What has gathered there while the link was busy leaves as one
// frame in one write, which costs one TLS record or message. The ends of the data are
// told apart: [io.EOF] means the pod's clean close and nothing else, a text of the
// node is a [*RemoteError], and a link that broke is neither.
//
// Like TCP, the protocol does not say whether the pod has read what was written. To
// know that, have the pod's program answer.
//
// An idle connection has two goroutines and no buffer of its own: it takes buffers from
// its dialer as bytes pass, and gives them back.
//
// # Beside the stock client
//
// client-go speaks the same protocol, and writes each frame in three parts. With these
// joined and gathered below it, it is as fast. In a real cluster, in 2,000 rounds in
// which both took turns, a stat by this package took 1.00 of its time
// (0.98 to 1.02, at 95 %) and a round trip of 64 bytes 0.98 (0.96 to 1.00). In 20
// rounds 64 MiB took 1.02 (0.77 to 1.12) to write and 0.99 (0.84 to 1.31) to read. As
// it is, a stat took 0.87 of its time, a round trip 0.82 and a write 0.64.
//
// This package saves memory. A connection holds 14 KiB of heap when it is new, and
// 51 KiB after use, most of it for TLS. The stock client's holds 861 KiB and 1.2 MiB or
// more, and 15 goroutines: it keeps a compressor for headers, which only the opening of
// streams needs. Nor does it tell the ends of the data apart.
// BenchmarkCluster and BenchmarkHeld measure this again.
package portforward

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/streaming/pkg/httpstream"
)

// Dialer opens port-forwards in one cluster. Its methods may be called
// concurrently.
type Dialer struct {
	config *rest.Config
	pods   *url.URL // of the namespaces

	// spdyUntil is the Unix time in nanoseconds until which the dialer tries only
	// SPDY, because the server refused WebSocket and took SPDY.
	spdyUntil atomic.Int64

	buffers  bufferPool
	messages sync.Pool // gorilla's buffers, for messages that are being sent
}

// New returns a dialer for the cluster of config. It uses config's credentials, proxy
// and TLS settings. Like kubectl's port-forward, it ignores Dial and Transport. New
// makes no connection, and does not change config.
func New(config *rest.Config) (*Dialer, error) {
	own := rest.CopyConfig(config)
	own.APIPath, own.GroupVersion = "/api", &schema.GroupVersion{Version: "v1"}
	own.NextProtos = []string{"http/1.1"} // a connection of HTTP/2 cannot be upgraded
	base, path, err := rest.DefaultServerUrlFor(own)
	if err != nil {
		return nil, fmt.Errorf("cannot tell the API server's address: %w", err)
	}
	if _, err := rest.TLSConfigFor(own); err != nil {
		return nil, fmt.Errorf("cannot use the TLS settings for the API server: %w", err)
	}
	if _, err := rest.HTTPWrappersForConfig(own, http.DefaultTransport); err != nil {
		return nil, fmt.Errorf("cannot use the credentials for the API server: %w", err)
	}
	return &Dialer{config: own, pods: base.JoinPath(path, "namespaces")}, nil
}

// Dial opens a connection to a port of a pod's loopback, from 1 to 65535. It returns
// when the node has taken the data stream, which is mostly before the node reaches the
// port. If nobody listens there, the error is a [*RemoteError], of Dial or else of the
// first Read and of later Writes. Dial takes at most 30 seconds, or until ctx ends;
// once it has returned, ctx has no further effect.
//
// If the API server refuses, the error is a
// [k8s.io/apimachinery/pkg/api/errors.StatusError]: IsForbidden, IsNotFound and the
// like of that package tell the reason. WebSocket needs the verb "get" on
// pods/portforward, and on newer servers also "create"; SPDY needs only "create".
func (d *Dialer) Dial(ctx context.Context, namespace, pod string, port int) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	to, err := d.podPort(namespace, pod, port)
	if err != nil {
		return nil, err
	}
	c, err := d.dial(ctx, to)
	if err != nil {
		return nil, fmt.Errorf("cannot forward port %d of pod %s/%s: %w", port, namespace, pod, err)
	}
	return c, nil
}

// podPort is a port of a pod.
type podPort struct {
	url  *url.URL
	addr addr
	port int
}

func (d *Dialer) podPort(namespace, pod string, port int) (podPort, error) {
	for _, name := range []string{namespace, pod} {
		if msgs := content.IsPathSegmentName(name); name == "" || len(msgs) > 0 {
			return podPort{}, fmt.Errorf("cannot forward a port of pod %q in namespace %q: invalid name %s",
				pod, namespace, strings.Join(msgs, ", "))
		}
	}
	if port < 1 || port > 1<<16-1 {
		return podPort{}, fmt.Errorf("cannot forward port %d of pod %s/%s: ports are 1 to 65535", port, namespace, pod)
	}
	return podPort{
		url:  d.pods.JoinPath(url.PathEscape(namespace), "pods", url.PathEscape(pod), "portforward"),
		addr: addr(fmt.Sprintf("%s/%s:%d", namespace, pod, port)),
		port: port,
	}, nil
}

// dial connects. It returns when ctx ends even if something below ignores ctx, as a
// credential plugin may; a connection that comes later is closed.
func (d *Dialer) dial(ctx context.Context, to podPort) (*conn, error) {
	type result struct {
		conn *conn
		err  error
	}
	results := make(chan result)
	go func() {
		c, err := d.connectSafely(ctx, to)
		select {
		case results <- result{c, err}:
		case <-ctx.Done():
			if err == nil {
				_ = c.Close()
			}
		}
	}()
	select {
	case r := <-results:
		return r.conn, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// connectSafely is connect, but turns a panic into an error: the WebSocket library
// panics when a proxy's answer has a status without a reason.
func (d *Dialer) connectSafely(ctx context.Context, to podPort) (c *conn, err error) {
	defer func() {
		if v := recover(); v != nil {
			c, err = nil, fmt.Errorf("connecting failed: %v", v)
		}
	}()
	return d.connect(ctx, to)
}

func (d *Dialer) connect(ctx context.Context, to podPort) (*conn, error) {
	l, err := d.upgrade(ctx, to.url)
	if err != nil {
		return nil, err
	}
	return open(ctx, l, to, &d.buffers)
}

// upgrade makes the link. It tries WebSocket first, and falls back to SPDY when
// kubectl does. It remembers for some time that a server wanted SPDY.
func (d *Dialer) upgrade(ctx context.Context, u *url.URL) (*link, error) {
	if time.Now().UnixNano() < d.spdyUntil.Load() {
		l, err := d.spdy(ctx, u)
		if err != nil {
			d.spdyUntil.Store(0)
		}
		return l, err
	}
	l, err := d.websocket(ctx, u)
	if err == nil || !httpstream.IsUpgradeFailure(err) && !httpstream.IsHTTPSProxyError(err) {
		return l, err
	}
	l, spdyErr := d.spdy(ctx, u)
	if spdyErr != nil {
		return nil, bothFailed(err, spdyErr)
	}
	d.spdyUntil.Store(time.Now().Add(websocketRetry).UnixNano())
	return l, nil
}

// addr is the address of a pod's port, as namespace/pod:port.
type addr string

func (addr) Network() string  { return "portforward" }
func (a addr) String() string { return string(a) }
