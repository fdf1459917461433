package portforward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"

	"k8s.io/apimachinery/pkg/util/portforward"
	"k8s.io/client-go/rest"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/podagent/podagent/pkg/launcher/internal/upgrade"
)

// spdyProtocol is the value of the Upgrade header that asks for SPDY.
const spdyProtocol = "SPDY/3.1"

// spdy upgrades to SPDY. It uses the standard transport, which knows every kind of
// proxy and heeds the context in each step.
func (d *Dialer) spdy(ctx context.Context, u *url.URL) (*link, error) {
	transport, err := d.transport()
	if err != nil {
		return nil, err
	}
	defer transport.CloseIdleConnections()
	wrapped, err := rest.HTTPWrappersForConfig(d.config, transport)
	if err != nil {
		return nil, fmt.Errorf("cannot use the credentials: %w", err)
	}
	var socket net.Conn
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		socket = got.Conn
	}})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set(httpstream.HeaderConnection, httpstream.HeaderUpgrade)
	req.Header.Set(httpstream.HeaderUpgrade, spdyProtocol)
	req.Header.Set(httpstream.HeaderProtocolVersion, portforward.PortForwardV1Name)
	resp, err := wrapped.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	return upgraded(resp, socket)
}

func (d *Dialer) transport() (*http.Transport, error) {
	tlsConfig, err := rest.TLSConfigFor(d.config)
	if err != nil {
		return nil, fmt.Errorf("cannot use the TLS settings: %w", err)
	}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:              d.proxy(),
		TLSClientConfig:    tlsConfig,
		Protocols:          &protocols,
		DisableCompression: true,
	}, nil
}

// upgraded returns the connection that the answer to an upgrade request carries.
func upgraded(resp *http.Response, socket net.Conn) (*link, error) {
	if resp.StatusCode != http.StatusSwitchingProtocols {
		defer func() { _ = resp.Body.Close() }()
		return nil, upgrade.Refusal(resp, "pods/portforward")
	}
	body, ok := resp.Body.(io.ReadWriteCloser)
	switch {
	case !ok || socket == nil:
		_ = resp.Body.Close()
		return nil, errors.New("the configuration's transport wrapper hides the upgraded connection")
	case resp.Header.Get(httpstream.HeaderUpgrade) != spdyProtocol:
		_ = body.Close()
		return nil, fmt.Errorf("the API server upgraded to %q in place of %q",
			resp.Header.Get(httpstream.HeaderUpgrade), spdyProtocol)
	}
	return &link{body, upgrade.Bottom(socket)}, nil
}
