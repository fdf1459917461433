package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"time"

	"github.com/podagent/podagent/pkg/podapi"
)

// dialer opens a connection in some way.
type dialer func(ctx context.Context) (net.Conn, error)

func plain(address string) dialer {
	return func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", address) }
}

func unix(address string) dialer {
	return func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "unix", address) }
}

// secured opens a TLS connection without any checks of the other side. In TLS 1.3
// the client's handshake ends before the server can refuse it. So this waits for
// the first byte, which the agent sends unasked to clients that it admits.
func secured(address string, config *tls.Config) dialer {
	return func(ctx context.Context) (net.Conn, error) {
		conn, err := plain(address)(ctx)
		if err != nil {
			return nil, err
		}
		client := tls.Client(conn, config)
		if err := client.HandshakeContext(ctx); err != nil {
			conn.Close()
			return nil, err
		}
		first := make([]byte, 1)
		if _, err := io.ReadFull(client, first); err != nil {
			conn.Close()
			return nil, err
		}
		return begun{client, io.MultiReader(bytes.NewReader(first), client)}, nil
	}
}

// begun is a connection from which some bytes have been read. r returns them again.
type begun struct {
	net.Conn
	r io.Reader
}

func (b begun) Read(p []byte) (int, error) { return b.r.Read(p) }

// call makes a call to each service. It returns the services that answered or, if
// none did, the first error.
func call(ctx context.Context, dial dialer) string {
	client, err := podapi.Dial(podapi.DialOptions{Dial: dial})
	if err != nil {
		return err.Error()
	}
	defer client.Close()
	var failed error
	for name, do := range calls(ctx, client) {
		err := do()
		if err == nil {
			return "answered: " + name
		}
		if failed == nil {
			failed = err
		}
	}
	return failed.Error()
}

func calls(ctx context.Context, client *podapi.Client) func(func(string, func() error) bool) {
	return func(yield func(string, func() error) bool) {
		_ = yield("info", func() error { _, err := client.Info(ctx); return err }) &&
			yield("configure", func() error { return client.Configure(ctx, podapi.Config{}) }) &&
			yield("stat", func() error { _, err := client.Stat(ctx, "/"); return err }) &&
			yield("write", func() error {
				return client.WriteFile(ctx, "intruded", nil, 0o666)
			}) &&
			yield("processes", func() error { _, err := client.Processes(ctx); return err }) &&
			yield("exec", func() error { return client.Command(ctx, "true").Run() }) &&
			yield("health", func() error { return client.Healthy(ctx) })
	}
}

// tryHealth calls the method that the health socket offers, and those that it must
// not offer.
func tryHealth() {
	client, err := podapi.Dial(podapi.DialOptions{Dial: unix(health)})
	if err != nil {
		panic(err) // this fails only for bad options
	}
	defer client.Close()
	for name, do := range calls(context.Background(), client) {
		try("health socket: "+name, func(context.Context) string {
			err := do()
			switch {
			case err == nil:
				return "answered"
			case errors.Is(err, errors.ErrUnsupported):
				return "unimplemented"
			}
			return err.Error()
		})
	}
}

// tryCertificates calls over TLS with each certificate that an intruder has.
func tryCertificates(address string, authorized, agents ed25519.PrivateKey) {
	stolen := theirCertificate(address)
	for _, c := range []struct {
		way    string
		config *tls.Config
	}{
		{"TLS without a certificate", &tls.Config{}},
		{"TLS with a key of its own", certificateOf(freshKey())},
		{"TLS with the caller's key, not its secret", certificateOf(authorized)},
		{"TLS with the agent's certificate", &tls.Config{Certificates: []tls.Certificate{{Certificate: stolen, PrivateKey: freshKey()}}}},
		{"TLS with the agent's own key", certificateOf(agents)},
	} {
		config := permissive(c.config)
		try(c.way, func(ctx context.Context) string { return call(ctx, secured(address, config)) })
		other := config.Clone()
		other.NextProtos = nil
		try(c.way+", no ALPN", func(ctx context.Context) string { return call(ctx, secured(address, other)) })
	}
}

// tryOldVersions calls over TLS versions before 1.3.
func tryOldVersions(address string) {
	for _, version := range []uint16{tls.VersionTLS10, tls.VersionTLS11, tls.VersionTLS12} {
		config := permissive(certificateOf(freshKey()))
		config.MinVersion, config.MaxVersion = version, version
		try(tls.VersionName(version), func(ctx context.Context) string { return call(ctx, secured(address, config)) })
	}
}

// tryOwnAddresses calls the pod's own addresses except loopback.
func tryOwnAddresses() {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		panic(err) // this needs no permission
	}
	for _, a := range addresses {
		ip := a.(*net.IPNet).IP
		if ip.IsLoopback() || ip.IsLinkLocalUnicast() {
			continue
		}
		address := net.JoinHostPort(ip.String(), agentPort)
		try("the pod's address", func(ctx context.Context) string { return call(ctx, plain(address)) })
		try("the pod's address, by TLS", func(ctx context.Context) string {
			return call(ctx, secured(address, certificateOf(freshKey())))
		})
	}
}

// invited calls with the identity in standard input. This shows that the other
// callers lack only that, and that no session can be resumed: a session ticket
// would admit anyone with the ticket keys.
func invited() error {
	data, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	identity, err := podapi.ParseIdentity(data)
	if err != nil {
		return err
	}
	config, err := identity.ClientTLS("")
	if err != nil {
		return err
	}
	config.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	for _, way := range []string{"identity", "identity, again"} {
		resumed := false
		config.VerifyConnection = func(state tls.ConnectionState) error {
			resumed = state.DidResume
			return nil
		}
		try(way, func(ctx context.Context) string {
			return fmt.Sprintf("%s, resumed: %v", call(ctx, secured(agent, config)), resumed)
		})
	}
	try("search for its secret", func(context.Context) string { return secretIn(data, nil) })
	return nil
}

func freshKey() ed25519.PrivateKey {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err) // the system always has randomness
	}
	return key
}

// certificateOf returns a configuration with a certificate for key. If key's public
// half does not belong to its private half, the certificate is as inconsistent.
func certificateOf(key ed25519.PrivateKey) *tls.Config {
	if key == nil {
		return &tls.Config{}
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "podagent client"},
		NotAfter: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	signer := ed25519.NewKeyFromSeed(key.Seed())
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), signer)
	if err != nil {
		panic(err)
	}
	return permissive(&tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: signer}}})
}

// permissive makes a configuration accept any server.
func permissive(config *tls.Config) *tls.Config {
	config = config.Clone()
	config.InsecureSkipVerify = true
	for _, cert := range config.Certificates { // shown whichever the agent asks for
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
	}
	config.NextProtos = []string{"h2"}
	return config
}

// theirCertificate returns the certificate that the agent shows to everybody, or
// nil.
func theirCertificate(address string) [][]byte {
	var chain [][]byte
	config := permissive(&tls.Config{})
	config.VerifyConnection = func(state tls.ConnectionState) error {
		for _, c := range state.PeerCertificates {
			chain = append(chain, c.Raw)
		}
		return nil
	}
	_, _ = secured(address, config)(context.Background()) // the agent refuses it afterwards
	return chain
}
