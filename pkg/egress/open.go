package egress

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"sync"

	"github.com/podagent/podagent/pkg/egress/internal/authority"
	"github.com/podagent/podagent/pkg/egress/internal/mask"
)

// tlsOpener opens the TLS to hosts that have secrets. It answers a client in the host's
// name, with a certificate of the far end's CA, and passes each request on to the
// host by TLS of its own, with the secrets put in. Nothing is kept: bodies pass as they
// come.
type tlsOpener struct {
	ca      *authority.CA
	secrets *secretSet
	roots   *x509.CertPool // nil: this machine's
	shared  bool           // others may have the same CA
	clients chan struct{}  // has an element for each client
	conns   chan struct{}  // and for each connection to a host
	budget  *budget
}

var _ opener = (*tlsOpener)(nil)

// newTLSOpener returns what opens TLS for the secrets of these options; nil if there are
// none.
func newTLSOpener(opts Options) (*tlsOpener, error) {
	if len(opts.Secrets) == 0 {
		return nil, nil
	}
	seed := opts.Seed
	switch {
	case len(seed) == 0:
		seed = make([]byte, minSeed)
		_, _ = rand.Read(seed) // it never fails
	case len(seed) < minSeed:
		return nil, fmt.Errorf("the seed has %d bytes: it needs %d, or none", len(seed), minSeed)
	}
	secrets, err := newSecretSet(opts.Secrets, seed)
	if err != nil {
		return nil, err
	}
	ca, err := authority.New(seed)
	if err != nil {
		return nil, err
	}
	return openerOf(ca, secrets, opts), nil
}

func openerOf(ca *authority.CA, secrets *secretSet, opts Options) *tlsOpener {
	return &tlsOpener{
		ca: ca, secrets: secrets, roots: opts.Roots, shared: len(opts.Seed) > 0,
		clients: make(chan struct{}, mostOpened), conns: make(chan struct{}, mostHostConns),
		budget: newBudget(),
	}
}

// opens reports whether a host has secrets, so that its TLS is to be opened.
func (o *tlsOpener) opens(host string, port int) bool {
	return o != nil && len(o.secrets.boundTo(host, port)) > 0
}

// open serves a client that begins TLS, until the client or ctx ends the connection, and
// closes it. dial connects to the host, and is called for each connection to it. The error
// says why there was no request; nil after one, even if it was refused, which is told then.
func (o *tlsOpener) open(ctx context.Context, client net.Conn, to target, dial func(context.Context) (net.Conn, error)) error {
	conn := newClientConn(client)
	defer conn.Close()
	stop := context.AfterFunc(ctx, conn.reset)
	defer stop()
	select {
	case o.clients <- struct{}{}:
		defer func() { <-o.clients }()
	default:
		conn.reset()
		return fmt.Errorf("%d connections to hosts of secrets are open, and there may be no more", mostOpened)
	}
	leaf, err := o.ca.Leaf(to.host())
	if err != nil {
		return err
	}
	shaking, cancel := context.WithTimeout(ctx, openHandshake)
	defer cancel()
	secure := tls.Server(conn, &tls.Config{
		Certificates:           []tls.Certificate{*leaf},
		NextProtos:             []string{"h2", "http/1.1"},
		SessionTicketsDisabled: true, // each connection has keys of its own
	})
	if err := secure.HandshakeContext(shaking); err != nil {
		return fmt.Errorf("the TLS of the client to %s, which is opened for a secret, failed (does it trust SSL_CERT_FILE?): %w", to, err)
	}
	x := newOpenedTLS(o, conn, to, dial)
	defer x.close()
	_ = x.server(ctx).Serve(&oneConn{conn: secure, ended: conn.closed}) // ends by the connection's end
	if !x.hasAsked() {
		return errNoRequest
	}
	return nil
}

var errNoRequest = errors.New("the client sent none")

// openedTLS is one connection with opened TLS.
type openedTLS struct {
	opener *tlsOpener
	conn   *clientConn
	to     target
	bound  []*held
	mask   *mask.Mask // of bound
	dial   func(context.Context) (net.Conn, error)

	once  sync.Once
	proxy *httputil.ReverseProxy
	host  *http.Transport

	mu     sync.Mutex
	hosts  map[*hostConn]struct{} // its connections
	closed bool
	told   map[string]bool // what was told of a secret, once for a connection
	asked  bool            // there was a request
	denied firsts          // what was told of those that were refused
}

func newOpenedTLS(o *tlsOpener, conn *clientConn, to target, dial func(context.Context) (net.Conn, error)) *openedTLS {
	bound := o.secrets.boundTo(to.host(), int(to.port))
	return &openedTLS{
		opener: o, conn: conn, to: to, bound: bound, mask: newMask(bound), dial: dial,
		hosts: map[*hostConn]struct{}{}, told: map[string]bool{},
	}
}

// server returns what speaks HTTP with the client.
func (x *openedTLS) server(ctx context.Context) *http.Server {
	return &http.Server{
		Handler:                      x,
		BaseContext:                  func(net.Listener) context.Context { return ctx },
		DisableGeneralOptionsHandler: true,
		ReadHeaderTimeout:            openHeader,
		IdleTimeout:                  openIdle,
		MaxHeaderBytes:               maxOpenHeader,
		ErrorLog:                     discard,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          openStreams,
			MaxReceiveBufferPerStream:     openStreamBuffer,
			MaxReceiveBufferPerConnection: openConnBuffer,
		},
	}
}

// transport returns what speaks HTTP with the host. It offers HTTP/2 to the host only if
// the client speaks it, so that upgrades find HTTP/1 on both sides.
func (x *openedTLS) transport(http2 bool) *http.Transport {
	t := &http.Transport{
		DialContext:            func(ctx context.Context, _, _ string) (net.Conn, error) { return x.connect(ctx) },
		TLSClientConfig:        &tls.Config{RootCAs: x.opener.roots, ServerName: x.to.host()},
		TLSHandshakeTimeout:    openHandshake,
		ExpectContinueTimeout:  openContinue,
		IdleConnTimeout:        openIdle,
		MaxConnsPerHost:        openConns,
		MaxIdleConnsPerHost:    openConns,
		MaxResponseHeaderBytes: maxAnswerHeader,
		DisableCompression:     true,
		Protocols:              new(http.Protocols),
		HTTP2: &http.HTTP2Config{
			MaxReceiveBufferPerStream:     hostStreamBuffer,
			MaxReceiveBufferPerConnection: hostConnBuffer,
		},
	}
	t.Protocols.SetHTTP1(true)
	t.Protocols.SetHTTP2(http2)
	return t
}

// begin makes the way to the host, when the first request shows the client's protocol.
func (x *openedTLS) begin(r *http.Request) {
	x.once.Do(func() {
		x.host = x.transport(r.ProtoMajor == 2)
		x.proxy = &httputil.ReverseProxy{
			Rewrite:        x.rewrite,
			Transport:      x.host,
			FlushInterval:  -1,
			BufferPool:     openBufferPool{},
			ModifyResponse: x.upgraded,
			ErrorHandler:   x.failed,
			ErrorLog:       discard,
		}
	})
}
