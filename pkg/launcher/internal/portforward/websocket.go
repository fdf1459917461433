package portforward

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"

	"github.com/gorilla/websocket"
	"k8s.io/apimachinery/pkg/util/portforward"
	"k8s.io/client-go/rest"
	tunnel "k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/podagent/podagent/pkg/launcher/internal/upgrade"
)

// websocket upgrades to a WebSocket that carries SPDY.
func (d *Dialer) websocket(ctx context.Context, u *url.URL) (*link, error) {
	tlsConfig, err := rest.TLSConfigFor(d.config)
	if err != nil {
		return nil, fmt.Errorf("cannot use the TLS settings: %w", err)
	}
	upgrader := &webSocketUpgrader{dialer: websocket.Dialer{
		Proxy:           d.proxy(),
		TLSClientConfig: tlsConfig,
		Subprotocols:    []string{portforward.WebsocketsSPDYTunnelingPortForwardV1},
		ReadBufferSize:  headersBuffer,
		WriteBufferSize: bufferSize,
		WriteBufferPool: &d.messages,
	}}
	wrapped, err := rest.HTTPWrappersForConfig(d.config, upgrader)
	if err != nil {
		return nil, fmt.Errorf("cannot use the credentials: %w", err)
	}
	if err := upgrader.upgrade(ctx, wrapped, u); err != nil {
		return nil, err
	}
	ws := upgrader.conn
	if ws == nil {
		return nil, errors.New("a wrapper of the transport answered by itself")
	}
	return &link{tunnel.NewTunnelingConnection("podagent", ws), upgrade.Bottom(ws.NetConn())}, nil
}

// webSocketUpgrader is a transport for one request. With the stock client's, a
// connection keeps 66 KiB of buffers for as long as it lives.
type webSocketUpgrader struct {
	dialer websocket.Dialer
	conn   *websocket.Conn // set by RoundTrip
}

// upgrade sends the request through wrapped, which calls RoundTrip.
func (w *webSocketUpgrader) upgrade(ctx context.Context, wrapped http.RoundTripper, u *url.URL) error {
	// The handshake heeds the context's deadline, but not its end. A proxy that hangs
	// before the handshake keeps this goroutine until the deadline.
	var release func() bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		release = context.AfterFunc(ctx, func() { _ = upgrade.Bottom(got.Conn).Close() })
	}})
	req, err := http.NewRequestWithContext(traced, http.MethodGet, u.String(), nil)
	if err != nil {
		return err
	}
	resp, err := wrapped.RoundTrip(req)
	if err == nil {
		_ = resp.Body.Close() // it is empty
	}
	if release != nil && !release() {
		return errors.Join(ctx.Err(), err)
	}
	return err
}

// RoundTrip implements [http.RoundTripper].
func (w *webSocketUpgrader) RoundTrip(req *http.Request) (*http.Response, error) {
	u := *req.URL
	u.Scheme = strings.Replace(u.Scheme, "http", "ws", 1)
	conn, resp, err := w.dialer.DialContext(req.Context(), u.String(), req.Header)
	switch {
	case errors.Is(err, websocket.ErrBadHandshake) && resp != nil:
		return nil, &httpstream.UpgradeFailureError{Cause: upgrade.Refusal(resp, "pods/portforward")}
	case err != nil:
		return nil, err
	case conn.Subprotocol() != w.dialer.Subprotocols[0]:
		_ = conn.Close()
		return nil, &httpstream.UpgradeFailureError{
			Cause: fmt.Errorf("the API server speaks %q by WebSocket, in place of %q", conn.Subprotocol(), w.dialer.Subprotocols[0]),
		}
	}
	w.conn = conn
	return resp, nil
}
