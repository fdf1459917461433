//go:build linux

package main

// Gateways as programs: TLS, what operators ask of them, and how one goes on where another ends.

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// gatewayProgram is a gateway that serves.
type gatewayProgram struct {
	*testing.T
	*exec.Cmd
	URL     string `json:"url"`
	Health  string `json:"health_url"`
	SSH     string `json:"ssh_url"`
	HostKey string `json:"ssh_host_key"` // as known_hosts has it
	client  *http.Client
	end     func() int // waits for its end, and returns the exit status
}

const gatewayTestToken = "token-for-tests-only"

// gateway starts a gateway whose tenant has gatewayTestToken.
func (c *cli) gateway(args ...string) *gatewayProgram {
	c.t.Helper()
	token := filepath.Join(c.t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(gatewayTestToken), 0o600); err != nil {
		c.t.Fatal(err)
	}
	args = append([]string{"gateway", "-o", "json", "--listen", ":0", "--health-listen", ":0", "--token-file", token}, args...)
	g := &gatewayProgram{T: c.t, Cmd: exec.Command(filepath.Join(c.bin, "orchestrator"), args...)}
	g.Env, g.Stderr = c.env, c.t.Output()
	out, err := g.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	c.start(g.Cmd)
	g.end = sync.OnceValue(func() int {
		_ = g.Wait()
		return g.ProcessState.ExitCode()
	})
	c.t.Cleanup(func() {
		_ = g.Process.Kill()
		g.end()
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err := errors.Join(err, json.Unmarshal(line, g)); err != nil {
		c.t.Fatalf("%q: %v", line, err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	c.t.Cleanup(transport.CloseIdleConnections)
	g.client = &http.Client{Transport: transport, Timeout: hung}
	return g
}

// request returns a request with the token.
func (g *gatewayProgram) request(method, url, body string, headers ...string) *http.Request {
	g.Helper()
	req, err := http.NewRequestWithContext(g.Context(), method, url, strings.NewReader(body))
	if err != nil {
		g.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+gatewayTestToken)
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		req.Header.Set(name, value)
	}
	return req
}

// ask sends a request.
func (g *gatewayProgram) ask(method, url, body string, headers ...string) *http.Response {
	g.Helper()
	r, err := g.client.Do(g.request(method, url, body, headers...))
	if err != nil {
		g.Fatal(err)
	}
	g.Cleanup(func() { r.Body.Close() })
	return r
}

func (g *gatewayProgram) status(url string) int {
	g.Helper()
	r := g.ask("GET", url, "")
	_, _ = io.Copy(io.Discard, r.Body)
	return r.StatusCode
}

const sandboxesPath = "/api/v1/sandboxes"

// newCertificate makes a pair for *.sandboxes.test, and returns the flags that name its files.
func newCertificate(t *testing.T) (flags []string) {
	t.Helper()
	cert, key := writeCertificate(t, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	return []string{"--tls-cert", cert, "--tls-key", key}
}

// writeCertificate makes a pair that is valid for a time, and returns the paths of its files.
func writeCertificate(t *testing.T, from, until time.Time) (certPath, keyPath string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"*.sandboxes.test"}, NotBefore: from, NotAfter: until}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, block := range map[string]*pem.Block{"cert": {Type: "CERTIFICATE", Bytes: der}, "key": {Type: "PRIVATE KEY", Bytes: key}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "cert"), filepath.Join(dir, "key")
}

// A gateway that is told to end is not ready any more, and serves on, until balancers know.
func TestGatewayThatIsToEndServesOnUnready(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	g := c.gateway("--drain-delay", "1h", "--max-connections", "3")
	for path, want := range map[string]int{"/healthz": 204, "/readyz": 204, "/api/v1/sandboxes": 404} {
		if got := g.status(g.Health + path); got != want {
			t.Errorf("%s: %d", path, got)
		}
	}
	if got := g.status(g.URL + "/readyz"); got != 404 {
		t.Errorf("callers ask whether it is ready: %d", got)
	}
	if err := g.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for begun := time.Now(); g.status(g.Health+"/readyz") == 204; time.Sleep(5 * time.Millisecond) {
		if time.Since(begun) > hung {
			t.Fatal("it stays ready")
		}
	}
	for range 5 { // more than it may have connections
		r := g.ask("GET", g.URL+sandboxesPath, "")
		if _, err := io.Copy(io.Discard, r.Body); r.StatusCode != 200 || !r.Close || err != nil {
			t.Errorf("%+v, %v", r, err)
		}
	}
	if got := g.status(g.Health + "/healthz"); got != 204 {
		t.Errorf("it is not alive: %d", got)
	}
	if err := g.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := g.end(); got != 128+int(syscall.SIGTERM) && got != -1 {
		t.Errorf("exit status %d after a second signal", got)
	}
}

// A gateway has ended when Kubernetes kills it.
func TestPodOfAGatewayHasTheTimeToEnd(t *testing.T) {
	const path = "../../deploy/chart/templates/gateway.yaml"
	chart, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("terminationGracePeriodSeconds: {{ add $g.drainSeconds %.0f }}\n", gatewayGrace.Seconds()); !strings.Contains(string(chart), want) {
		t.Errorf("%s lacks %s", path, want)
	}
}

// When all connections are in use, a call keeps its own.
func TestCallKeepsItsConnection(t *testing.T) {
	t.Parallel()
	g := newCLI(t).gateway("--max-connections", "1")
	g.ask("POST", g.URL+sandboxesPath, `{"id":"job"}`, "Content-Type: application/json").Body.Close()
	command := g.ask("POST", g.URL+sandboxesPath+"/job/exec", `{"script":"echo one; sleep 1000"}`, "Content-Type: application/json", "Accept: application/jsonl")
	lines := bufio.NewScanner(command.Body)
	for !strings.Contains(lines.Text(), `"data":"one`) && lines.Scan() {
	}
	newcomer, err := net.Dial("tcp", strings.TrimPrefix(g.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer newcomer.Close()
	_ = newcomer.SetDeadline(time.Now().Add(hung))
	if n, err := newcomer.Read(make([]byte, 1)); n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a newcomer is not refused: %d bytes, %v", n, err)
	}
	command.Body.Close()
	remove := g.request("DELETE", g.URL+sandboxesPath+"/job", "")
	for begun := time.Now(); ; time.Sleep(5 * time.Millisecond) { // until the gateway knows that the caller has left
		r, err := g.client.Do(remove)
		if err == nil {
			r.Body.Close()
			return
		}
		if time.Since(begun) > hung {
			t.Fatal(err)
		}
	}
}

// A gateway ends, and another goes on, with TLS and without.
func TestCommandGoesOnAtAnotherGateway(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	first, next := c.gateway(append(newCertificate(t), "--listen", "0.0.0.0:0")...), c.gateway()
	if !strings.HasPrefix(first.URL, "https://") {
		t.Fatalf("it serves %s", first.URL)
	}
	first.URL = "https://127.0.0.1" + first.URL[strings.LastIndex(first.URL, ":"):]
	if r := first.ask("POST", first.URL+sandboxesPath, `{"id":"job"}`, "Content-Type: application/json"); r.StatusCode != 201 || r.ProtoMajor != 2 {
		t.Fatalf("%+v", r)
	}
	defer next.ask("DELETE", next.URL+sandboxesPath+"/job", "")
	command := first.ask("POST", first.URL+sandboxesPath+"/job/exec", `{"script":"echo one; until [ -e go ]; do sleep 0.01; done; echo two"}`,
		"Content-Type: application/json", "Accept: application/jsonl")
	type line struct {
		Type, Data string
		ID         string `json:"exec_id"`
		Stdout     int64  `json:"stdout_offset"`
	}
	read := func(r *http.Response, last string) (out string, l line) {
		t.Helper()
		for lines := json.NewDecoder(r.Body); l.Type != last; out += l.Data {
			l = line{}
			if err := lines.Decode(&l); err != nil {
				t.Fatalf("after %q: %v", out, err)
			}
		}
		return out, l
	}
	one, _ := read(command, "stdout")
	if err := first.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	more, last := read(command, "reconnect")
	if got := first.end(); got != 128+int(syscall.SIGTERM) {
		t.Errorf("exit status %d", got)
	}
	next.ask("PUT", next.URL+sandboxesPath+"/job/files?path=go", "")
	rest, _ := read(next.ask("GET", fmt.Sprintf("%s%s/job/processes/%s/output?follow=true&stdout_offset=%d", next.URL, sandboxesPath, last.ID, last.Stdout), ""), "exit")
	if one+more+rest != "one\ntwo\n" {
		t.Errorf("it has written %q, %q and %q", one, more, rest)
	}
}
