package bench

import (
	"bufio"
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/egress"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi/wayout"
)

// What the way out may cost: connecting, in milliseconds, and the agent's memory, in MiB, with this
// many connections that move bytes. A fence may add so many milliseconds to a command.
const (
	egressConnect = 2
	egressMemory  = 64
	egressConns   = 500
	egressChunk   = 64 << 10 // each of them sends so many bytes, and receives them
	egressChunks  = 16       // so often or more, until all have
	fenceCost     = 0.05
)

// BenchmarkEgress measures the way out of a sandbox, by which programs in it reach servers here.
func BenchmarkEgress(b *testing.B) {
	b.Run("local", func(b *testing.B) {
		l := launchertest.Local(b)
		measureEgress(b, "on this machine", func(mode wayout.Mode) *launcher.Sandbox { return launchLeaver(b, l, launcher.Spec{}, mode) })
	})
	b.Run("pods", func(b *testing.B) {
		c := launchertest.NewCluster(b, launcher.Restricted)
		l := c.By(b, launcher.ByPortForward).Launcher()
		measureEgress(b, "in a pod", func(mode wayout.Mode) *launcher.Sandbox { return launchLeaver(b, l, c.Spec(""), mode) })
	})
}

func launchLeaver(b *testing.B, l launcher.Launcher, spec launcher.Spec, mode wayout.Mode) *launcher.Sandbox {
	b.Helper()
	spec.ID, spec.Egress.Mode = "bench-"+string(mode), mode
	s, err := l.Launch(b.Context(), spec)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	return s
}

func measureEgress(b *testing.B, where string, launch func(wayout.Mode) *launcher.Sandbox) {
	o := newOutside(b)
	p := &pod{launch(wayout.Mode(wayout.Landlock)), nil}
	o.serve(b, p)
	program := p.startTraffic(b)
	b.Run("downloads", func(b *testing.B) { measureEgressDownloads(b, where, p, program, o) })
	b.Run("calls", func(b *testing.B) {
		r := compare(b, "calls", "connect by the way out, "+where, 300,
			side{name: "podagent", timed: program.ask(fmt.Sprintf("connect raw.test:%d", o.raw))},
			side{name: "from here", do: o.connect},
		)
		r.limit(fmt.Sprintf("from here + %d ms", egressConnect), r.Peers[0].Median+egressConnect)
		open := &pod{launch(wayout.Off), nil}
		r = compare(b, "calls", "exec true within a fence, "+where, 300,
			side{name: "podagent", do: p.run(b, "true")},
			side{name: "podagent without a fence", do: open.run(b, "true")},
		)
		r.limit(fmt.Sprintf("podagent without a fence + %v ms", fenceCost), r.Peers[0].Median+fenceCost)
	})
	b.Run("memory", func(b *testing.B) {
		measureEgressMemory(b, where, &pod{launch(wayout.Mode(wayout.Advisory)), nil}, o)
	})
}

// measureEgressDownloads compares downloads with what Sandbox.Dial carries of the same server. The
// limits of opened TLS are those of TLS, which the server and the program also have.
func measureEgressDownloads(b *testing.B, where string, p *pod, program *traffic, o *outside) {
	dialed := p.dialEcho(b)
	get := func(host string) func() (time.Duration, error) {
		return program.ask(fmt.Sprintf("get https://%s:%d/ %d", host, o.secure, streamSize))
	}
	compare(b, "streams", "download of 256 MiB by the way out, "+where, streamRounds,
		side{name: "podagent", timed: program.ask(fmt.Sprintf("raw raw.test:%d %d", o.raw, streamSize))},
		side{name: "Sandbox.Dial, from the sandbox", do: dialed.receive(streamSize)},
		side{name: "Sandbox.Dial, to the sandbox", do: dialed.send('w', streamSize)},
	).want("Sandbox.Dial, from the sandbox", 0.8)
	compare(b, "streams", "download of 256 MiB by the way out that opens its TLS, "+where, streamRounds,
		side{name: "podagent", timed: get("example.com")},
		side{name: "podagent, TLS not opened", timed: get("www.example.com")},
		side{name: "Sandbox.Dial, from the sandbox", do: dialed.receive(streamSize)},
	).want("Sandbox.Dial, from the sandbox", 0.4)
}

// measureEgressMemory measures the agent with many connections that move bytes.
func measureEgressMemory(b *testing.B, where string, p *pod, o *outside) {
	o.serve(b, p)
	program := p.startTraffic(b)
	empty := p.agentMemory(b)
	if _, err := program.request(fmt.Sprintf("open raw.test:%d %d", o.raw, egressConns)); err != nil {
		b.Fatal(err)
	}
	idle := p.agentMemory(b)
	moved := make(chan error, 1)
	go func() {
		_, err := program.request(fmt.Sprintf("echo %d %d", egressChunk, egressChunks))
		moved <- err
	}()
	most := idle
	for done := false; !done; {
		most = max(most, p.agentMemory(b))
		select {
		case err := <-moved:
			if done = true; err != nil {
				b.Fatal(err)
			}
		case <-time.After(10 * time.Millisecond):
		}
	}
	publish(b, newRow("cost", fmt.Sprintf("most memory of an agent with %d connections by the way out that move bytes, %s", egressConns, where), "MiB", once("podagent", most)).
		beside(once("the same, idle", idle)).beside(once("without connections", empty))).limit("limit", egressMemory)
}

// agentMemory returns the memory of the sandbox's agent in MiB, with the pages of its program. A
// command of the sandbox reads it: the agent is its parent.
func (p *pod) agentMemory(b *testing.B) float64 {
	out, err := p.Command(b.Context(), "grep", "VmRSS", fmt.Sprintf("/proc/%s/status", p.agentProcess(b))).Output()
	if err != nil {
		b.Error(err)
		return 0
	}
	kib, err := strconv.ParseFloat(strings.Fields(string(out))[1], 64)
	if err != nil {
		b.Error(err)
	}
	return kib / 1024
}

func (p *pod) agentProcess(b *testing.B) string {
	out, err := p.Command(b.Context(), "sh", "-c", "echo $PPID").Output()
	if err != nil {
		b.Error(err)
	}
	return strings.TrimSpace(string(out))
}

// outside are servers that a sandbox may reach: command echo as raw.test, and pages of streamSize as
// example.com and www.example.com.
type outside struct {
	raw, secure int
	roots       *x509.CertPool
}

func newOutside(b *testing.B) *outside {
	b.Helper()
	port, err := strconv.Atoi(startProgram(b, build(b, "echo", "./testdata/echo")).line(b))
	if err != nil {
		b.Fatal(err)
	}
	page := random(1 << 20)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(streamSize))
		for range streamSize / len(page) {
			if _, err := w.Write(page); err != nil {
				return
			}
		}
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	b.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	return &outside{port, server.Listener.Addr().(*net.TCPAddr).Port, roots}
}

// serve is the far end of a sandbox. It opens the TLS to example.com.
func (o *outside) serve(b *testing.B, p *pod) {
	b.Helper()
	rules := func(texts ...string) (list []egress.Rule) {
		for _, text := range texts {
			r, err := egress.ParseRule(text)
			if err != nil {
				b.Fatal(err)
			}
			list = append(list, r)
		}
		return list
	}
	s, err := egress.Serve(context.Background(), p.Client, egress.Options{
		Policy: egress.Policy{Allow: rules(
			fmt.Sprintf("raw.test=127.0.0.1:%d", o.raw),
			fmt.Sprintf("example.com=127.0.0.1:%d", o.secure),
			fmt.Sprintf("www.example.com=127.0.0.1:%d", o.secure),
		)},
		Secrets: []egress.Secret{{Name: "TOKEN", Value: []byte("a token of the benchmark"), Hosts: rules(fmt.Sprintf("example.com:%d", o.secure))}},
		Roots:   o.roots,
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
}

func (o *outside) connect() error {
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", o.raw))
	if err != nil {
		return err
	}
	return conn.Close()
}

// dialEcho runs command echo in the sandbox, and connects to it.
func (p *pod) dialEcho(b *testing.B) *rawStream {
	b.Helper()
	conn, err := p.Dial(b.Context(), p.startEcho(b))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	return &rawStream{conn, random(tcpBuffer)}
}

// traffic is command traffic in a sandbox.
type traffic struct {
	input  io.Writer
	output *bufio.Reader
}

func (p *pod) startTraffic(b *testing.B) *traffic {
	b.Helper()
	p.install(b, "traffic", "./testdata/traffic")
	cmd := p.Command(b.Context(), "./traffic")
	input, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	return &traffic{input, bufio.NewReader(output)}
}

// ask returns a call that measures itself.
func (t *traffic) ask(request string) func() (time.Duration, error) {
	return func() (time.Duration, error) { return t.request(request) }
}

func (t *traffic) request(request string) (time.Duration, error) {
	if _, err := fmt.Fprintln(t.input, request); err != nil {
		return 0, err
	}
	line, err := t.output.ReadString('\n')
	if err != nil {
		return 0, fmt.Errorf("%s: %w", request, err)
	}
	took, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %s", request, line)
	}
	return time.Duration(took), nil
}
