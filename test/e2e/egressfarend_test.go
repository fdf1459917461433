package e2e

// The far end of a pod that may not leave, and the servers that it may reach.

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/egress"
	"github.com/podagent/podagent/pkg/launcher"
)

// tryHeader has the name of a try, for servers of HTTP.
const tryHeader = "X-Try"

// rebound is where rebinding.test is at first. Later it is at another address of the loopback.
var rebound = netip.MustParseAddr("127.0.0.2")

// allowed are servers that the far end lets a pod reach.
type allowed struct {
	outside *outside
	plain   *httptest.Server
	secure  *httptest.Server
	roots   *x509.CertPool
}

// newAllowed serves HTTP and HTTPS, and names the ports for tries.
func newAllowed(t *testing.T, o *outside) *allowed {
	t.Helper()
	a := &allowed{outside: o, roots: x509.NewCertPool()}
	l, err := net.Listen("tcp4", ":0") // at all addresses of the loopback
	if err != nil {
		t.Fatal(err)
	}
	a.plain = &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(a.answer)}}
	a.plain.Start()
	t.Cleanup(a.plain.Close)
	a.secure = httptest.NewUnstartedServer(http.HandlerFunc(a.answer))
	a.secure.EnableHTTP2 = true
	a.secure.Config.ErrorLog = log.New(io.Discard, "", 0) // of clients that are cut off
	a.secure.TLS = &tls.Config{
		Certificates: []tls.Certificate{a.certificate(t)},
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			a.saw(hello.ServerName)
			return nil, nil
		},
	}
	a.secure.StartTLS()
	t.Cleanup(a.secure.Close)
	o.name("plainport", portOf(a.plain))
	o.name("secureport", portOf(a.secure))
	o.name("plain", fmt.Sprintf("127.0.0.1:%d", portOf(a.plain)))
	o.name("secure", fmt.Sprintf("127.0.0.1:%d", portOf(a.secure)))
	o.name("named", netip.AddrPortFrom(rebound, uint16(portOf(a.plain))))
	return a
}

// certificate returns one that is its own root.
func (a *allowed) certificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"secure.test", "opened.test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	a.roots.AddCert(cert)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// answer says for which host a request is. A request for another host, and an upgrade, have led out.
func (a *allowed) answer(w http.ResponseWriter, r *http.Request) {
	host, _, _ := strings.Cut(r.Host, ":")
	switch host {
	case "plain.test", "secure.test", "opened.test":
	default:
		a.outside.arrives(r.Header.Get(tryHeader))
	}
	if r.Header.Get("Upgrade") != "" {
		a.outside.arrives(r.Header.Get(tryHeader))
	}
	if to, found := strings.CutPrefix(r.RequestURI, "/to/"); found {
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusFound)
		return
	}
	fmt.Fprintf(w, "for %s", host)
}

// saw notes the tries in which a name is, which a server or a resolver has been told.
func (a *allowed) saw(name string) {
	for _, w := range allEgressWays() {
		if strings.Contains(name, ".evil.") && strings.Contains(strings.ToLower(w.try), name) {
			a.outside.arrives(w.name)
		}
	}
}

// resolver is what the far end of one pod asks for names.
type resolver struct {
	*allowed
	rebound atomic.Bool
}

// LookupNetIP has addresses that are not public. A name below the wildcard arrives where it is asked
// for.
func (r *resolver) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	switch name := strings.TrimSuffix(host, "."); name {
	case "rebinding.test":
		if r.rebound.Swap(true) {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		}
		return []netip.Addr{rebound}, nil
	case "metadata.wild.test":
		return []netip.Addr{netip.MustParseAddr("169.254.169.254")}, nil
	default:
		for _, w := range allEgressWays() {
			if strings.Contains(strings.ToLower(w.try), " "+name+":") {
				r.outside.arrives(w.name)
			}
		}
		return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
}

// letOut serves the way out of a pod, with the rules of the tries.
func (a *allowed) letOut(t *testing.T, s *launcher.Sandbox) {
	t.Helper()
	replacer := strings.NewReplacer(a.outside.words...)
	rules := func(texts ...string) (list []egress.Rule) {
		for _, text := range texts {
			rule, err := egress.ParseRule(replacer.Replace(text))
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, rule)
		}
		return list
	}
	server, err := egress.Serve(context.Background(), s.Client, egress.Options{
		Policy:   egress.Policy{Allow: rules(egressRules...)},
		Secrets:  []egress.Secret{{Name: "TOKEN", Value: []byte("a secret of some length"), Hosts: rules("opened.test:{secureport}")}},
		Resolver: &resolver{allowed: a},
		Roots:    a.roots,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
}
