package e2e

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// gate is a proxy in front of the API server that can hold a program at one
// request. A held request never continues; the program is killed while it waits.
type gate struct {
	server *httptest.Server
	close  func() // closes the connections that are held

	mu       sync.Mutex
	held     func(*http.Request) bool // selects what to hold, if not nil
	after    bool                     // the answer is held, not the request
	reached  chan struct{}            // closed when something is held
	refused  func(*http.Request) bool // selects what to refuse, if not nil
	refusals int
}

// newGate makes a gate. It returns the gate and a kubeconfig for programs that use
// it with the rights of the Role.
func newGate(t *testing.T, c *launchertest.Cluster) (g *gate, kubeconfig string) {
	t.Helper()
	config := rest.CopyConfig(c.Orchestrator)
	config.NextProtos = []string{"http/1.1"} // port-forwards upgrade their connection
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan struct{})
	g = &gate{close: sync.OnceFunc(func() { close(closed) })}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // for watches
		ModifyResponse: func(r *http.Response) error {
			g.pass(r.Request, true, closed)
			return nil
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	g.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.refuses(r) {
			http.Error(w, "refused by the gate", http.StatusBadRequest)
			return
		}
		g.pass(r, false, closed)
		if r.Context().Err() != nil {
			panic(http.ErrAbortHandler)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		g.close()
		g.server.Close()
	})
	return g, g.kubeconfig(t, c)
}

// kubeconfig writes the kubeconfig of the gate.
func (g *gate) kubeconfig(t *testing.T, c *launchertest.Cluster) string {
	t.Helper()
	config := api.NewConfig()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: g.server.Certificate().Raw})
	config.Clusters["gate"] = &api.Cluster{Server: g.server.URL, CertificateAuthorityData: ca}
	config.AuthInfos["gate"] = &api.AuthInfo{Token: c.Orchestrator.BearerToken}
	config.Contexts["gate"] = &api.Context{Cluster: "gate", AuthInfo: "gate", Namespace: c.Namespace}
	config.CurrentContext = "gate"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// hold holds the first request of a kind, before it gets to the server, or its
// answer. reached is closed when that happens.
func (g *gate) hold(after bool, kind func(*http.Request) bool) (reached <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held, g.after, g.reached = kind, after, make(chan struct{})
	return g.reached
}

// refuse refuses requests of a kind.
func (g *gate) refuse(kind func(*http.Request) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refused = kind
}

func (g *gate) refuses(r *http.Request) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.refused == nil || !g.refused(r) {
		return false
	}
	g.refusals++
	return true
}

// pass returns at once, or after the held program was killed.
func (g *gate) pass(r *http.Request, after bool, closed <-chan struct{}) {
	g.mu.Lock()
	if g.held == nil || g.after != after || !g.held(r) {
		g.mu.Unlock()
		return
	}
	g.held = nil
	close(g.reached)
	g.mu.Unlock()
	select {
	case <-r.Context().Done():
	case <-closed:
	}
}
