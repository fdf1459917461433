package remote_test

import (
	"crypto/tls"
	"crypto/x509"
	"net/http/httptest"
	"testing"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/launcher/ledger"
	"github.com/podagent/podagent/pkg/launcher/remote"
)

func TestGatewayByTLS(t *testing.T) {
	g := gateway.New(gateway.Options{Launcher: launchertest.Local(t), Tenants: gateway.OneTenant{Name: "main", Token: token}, Ledger: ledger.Files{Dir: t.TempDir()}})
	server := httptest.NewUnstartedServer(g)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(func() {
		server.Close()
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	l := &remote.Launcher{URL: server.URL, Token: token, TLS: &tls.Config{RootCAs: roots}}
	s, err := l.Launch(t.Context(), launcher.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := s.Shell(t.Context(), "echo hello").Output(); err != nil || string(out) != "hello\n" {
		t.Errorf("%q, %v", out, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
