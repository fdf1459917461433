package bench

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	processv1 "sigs.k8s.io/agent-sandbox/packages/sandboxd/spec/process/v1"
)

// sandboxd is the nearest peer, which is an agent, too. It has neither TLS nor
// keys.
type sandboxd struct {
	processes processv1.ProcessServiceClient
	client    *http.Client
	rest      string // the URL of its REST API
}

const (
	sandboxdPackage = "sigs.k8s.io/agent-sandbox/packages/sandboxd/cmd/sandboxd"
	sandboxdGRPC    = 9090
	sandboxdREST    = 8080
)

// startSandboxd runs sandboxd in podagent's pod, and reaches it as its guide says,
// through kubectl port-forward.
func (p *pod) startSandboxd(b *testing.B) *sandboxd {
	b.Helper()
	p.install(b, "sandboxd", sandboxdPackage)
	cmd := p.Command(b.Context(), "./sandboxd", "--root-dir="+p.Workdir)
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	port := fmt.Sprint(sandboxdGRPC)
	err := await(b.Context(), "sandboxd does not listen", func() error {
		return p.Command(b.Context(), "bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/"+port).Run()
	})
	if err != nil {
		b.Fatal(err)
	}
	return dialSandboxd(b, p.forward(b, port), p.forward(b, fmt.Sprint(sandboxdREST)))
}

func dialSandboxd(b *testing.B, grpcAddress, restAddress string) *sandboxd {
	b.Helper()
	conn, err := grpc.NewClient(grpcAddress, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		b.Fatal(err)
	}
	// By default, Go's client keeps only two connections and opens a new one for
	// every further call.
	transport := &http.Transport{MaxIdleConnsPerHost: mostAtOnce}
	b.Cleanup(func() { conn.Close(); transport.CloseIdleConnections() })
	return &sandboxd{processv1.NewProcessServiceClient(conn), &http.Client{Transport: transport}, "http://" + restAddress}
}

func (d *sandboxd) run(b *testing.B, command ...string) func() error {
	return func() error {
		r, err := d.processes.Execute(b.Context(), &processv1.ExecuteRequest{Config: &processv1.ProcessConfig{Command: command}})
		if err == nil && r.ExitCode != 0 {
			err = fmt.Errorf("it exited with %d: %s", r.ExitCode, r.Stderr)
		}
		return err
	}
}

func (d *sandboxd) read(b *testing.B, name string, size int64) func() error {
	return func() error { return d.request(b, http.MethodGet, "/v1/files/"+name, nil, size) }
}

func (d *sandboxd) write(b *testing.B, name string, data []byte) func() error {
	return func() error { return d.request(b, http.MethodPut, "/v1/files/"+name, bytes.NewReader(data), 0) }
}

// healthy returns nil if sandboxd serves.
func (d *sandboxd) healthy(b *testing.B) error {
	return d.request(b, http.MethodGet, "/v1/health", nil, -1)
}

// request makes a request whose answer must have this size, unless that is
// negative.
func (d *sandboxd) request(b *testing.B, method, path string, body io.Reader, size int64) error {
	request, err := http.NewRequestWithContext(b.Context(), method, d.rest+path, body)
	if err != nil {
		return err
	}
	r, err := d.client.Do(request)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	n, err := io.Copy(io.Discard, r.Body)
	if err == nil && (r.StatusCode >= http.StatusMultipleChoices || size >= 0 && n != size) {
		err = fmt.Errorf("%s: %d bytes came", r.Status, n)
	}
	return err
}
