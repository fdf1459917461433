package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/audit"
	"github.com/podagent/podagent/pkg/gateway/e2b"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi"
)

// The gateway may take this much longer than what it calls, in milliseconds.
const (
	gatewayCall  = 0.6
	gatewayRoute = 0.4
	gatewayAudit = 0.2 // than without an audit log
)

// BenchmarkGateway measures what the gateway adds to a call, and to a request to a server in a
// sandbox.
func BenchmarkGateway(b *testing.B) {
	c := launchertest.NewCluster(b, launcher.Restricted)
	l := c.By(b, launcher.ByPortForward).Launcher()
	d := openDoor(b, l, c.Spec(""))
	d.post(b, "/api/v1/sandboxes", `{"id":"bench"}`)
	s, err := l.Open(b.Context(), "main.bench")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	p := &pod{s, c}

	r := compare(b, "calls", "exec true, by the gateway", 300,
		side{name: "podagent's gateway", do: d.exec(b)},
		side{name: "podagent", do: p.run(b, "true")},
	)
	r.limit(fmt.Sprintf("podagent + %v ms", gatewayCall), r.Peers[0].Median+gatewayCall)

	passed, small := d.client(b, p), random(4<<10)
	if err := p.WriteFile(b.Context(), "small", small, 0); err != nil {
		b.Fatal(err)
	}
	for _, call := range []struct {
		name string
		of   func(*pod) func() error
	}{
		{"exec true", func(p *pod) func() error { return p.run(b, "true") }},
		{"read a file of 4 KiB", func(p *pod) func() error { return p.read(b, "small", 4<<10) }},
	} {
		r = compare(b, "calls", call.name+", by the gateway's podapi", 300,
			side{name: "podagent's gateway", do: call.of(passed)},
			side{name: "podagent", do: call.of(p)},
		)
		r.limit(fmt.Sprintf("podagent + %v ms", gatewayCall), r.Peers[0].Median+gatewayCall)
	}

	r = compare(b, "calls", "exec true, by the gateway with an audit log", 300,
		side{name: "podagent's gateway, audited", do: openDoor(b, l, c.Spec(""), auditLog(b)).exec(b)},
		side{name: "podagent's gateway", do: d.exec(b)},
	)
	r.limit(fmt.Sprintf("podagent's gateway + %v ms", gatewayAudit), r.Peers[0].Median+gatewayAudit)

	port := p.startEcho(b, "0.0.0.0:0", "http")
	raw := p.forwardRaw(b, p.startEcho(b)).startEchoing(b)
	r = compare(b, "calls", "a request to a server in the sandbox, by the gateway", 300,
		side{name: "podagent's gateway", do: d.routed(b, port)},
		side{name: "ReverseProxy by address", do: reverseProxied(b, p.address(b, port))},
		side{name: "raw port-forward, 64 bytes", do: raw.echo},
	)
	r.limit(fmt.Sprintf("ReverseProxy + raw + %v ms", gatewayRoute), r.Peers[0].Median+r.Peers[1].Median+gatewayRoute)
}

// door is a gateway.
type door struct{ url string }

const doorToken = "the token of a benchmark"

func openDoor(b *testing.B, l launcher.Launcher, base launcher.Spec, observers ...gateway.Observer) *door {
	b.Helper()
	base.ID = ""
	g := gateway.New(gateway.Options{Launcher: l, Tenants: gateway.OneTenant{Name: "main", Token: doorToken}, Base: base, Observers: observers, Faces: []gateway.Face{&e2b.Face{}}})
	server := httptest.NewUnstartedServer(g)
	server.Config.Protocols = &http.Protocols{}
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	b.Cleanup(func() { server.Close(); g.Close() })
	return &door{server.URL}
}

// client returns the sandbox as podapi's client has it by the gateway.
func (d *door) client(b *testing.B, p *pod) *pod {
	b.Helper()
	pairs := []string{"authorization", "Bearer " + doorToken, "podagent-sandbox", "bench"}
	client, err := podapi.Dial(podapi.DialOptions{
		Dial: func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", strings.TrimPrefix(d.url, "http://"))
		},
		GRPC: []grpc.DialOption{
			grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, in, out any, conn *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				return call(metadata.AppendToOutgoingContext(ctx, pairs...), method, in, out, conn, opts...)
			}),
			grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
				return open(metadata.AppendToOutgoingContext(ctx, pairs...), desc, conn, method, opts...)
			}),
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { client.Close() })
	return &pod{&launcher.Sandbox{Client: client, ID: p.ID, Workdir: p.Workdir}, p.c}
}

// auditLog returns a log in files.
func auditLog(b *testing.B) *audit.Log {
	b.Helper()
	dir := b.TempDir()
	err := audit.MakeKey(filepath.Join(dir, "audit.pem"))
	if err != nil {
		b.Fatal(err)
	}
	key, err := audit.LoadKey(filepath.Join(dir, "audit.pem"))
	if err != nil {
		b.Fatal(err)
	}
	log, err := audit.New(audit.Options{Dir: filepath.Join(dir, "logs"), Key: key})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { log.Close() })
	return log
}

func (d *door) request(b *testing.B, method, path, body string) *http.Request {
	req, err := http.NewRequestWithContext(b.Context(), method, d.url+path, bytes.NewReader([]byte(body)))
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+doorToken)
	req.Header.Set("Content-Type", "application/json")
	return req
}

func (d *door) post(b *testing.B, path, body string) {
	b.Helper()
	if err := answered(d.request(b, http.MethodPost, path, body)); err != nil {
		b.Fatal(err)
	}
}

// exec returns a call that runs true in the sandbox.
func (d *door) exec(b *testing.B) func() error {
	return func() error {
		return answered(d.request(b, http.MethodPost, "/api/v1/sandboxes/bench/exec", `{"args":["true"]}`))
	}
}

// routed returns a request to the server at a port of the sandbox.
func (d *door) routed(b *testing.B, port int) func() error {
	return func() error {
		req := d.request(b, http.MethodGet, "/", "")
		req.Header.Set("X-Sandbox-ID", "bench")
		req.Header.Set("X-Sandbox-Port", strconv.Itoa(port))
		return answered(req)
	}
}

// reverseProxied returns a request through the standard library's proxy.
func reverseProxied(b *testing.B, address string) func() error {
	b.Helper()
	server := httptest.NewServer(httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: address}))
	b.Cleanup(server.Close)
	return func() error {
		req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, server.URL, nil)
		if err != nil {
			return err
		}
		return answered(req)
	}
}

// answered sends a request, and fails unless the whole answer comes, and is a good one.
func answered(req *http.Request) error {
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode/100 != 2 {
		err = fmt.Errorf("%s: %s", r.Status, text)
	}
	return err
}
