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
	p := &pod{launch(wayout.Mode(wayout.Landlock)), nil}
	o := newOutside(b)
	o.serve(b, p)
	leave := p.startLeaver(b)
	dialed := p.dialEcho(b)

	raw := fmt.Sprintf("raw raw.test:%d %d", o.raw, streamSize)
	compare(b, "streams", "download of 256 MiB by the way out, "+where, streamRounds,
		side{name: "podagent", timed: leave.ask(b, raw)},
		side{name: "Sandbox.Dial, from the sandbox", do: dialed.receive(streamSize)},
		side{name: "Sandbox.Dial, to the sandbox", do: dialed.send('w', streamSize)},
	).want("Sandbox.Dial, from the sandbox", 0.8)
	compare(b, "streams", "download of 256 MiB by the way out that opens its TLS, "+where, streamRounds,
		side{name: "podagent", timed: leave.ask(b, fmt.Sprintf("get https://example.com:%d/ %d", o.secure, streamSize))},
		side{name: "podagent, TLS not opened", timed: leave.ask(b, fmt.Sprintf("get https://www.example.com:%d/ %d", o.secure, streamSize))},
		side{name: "Sandbox.Dial, from the sandbox", do: dialed.receive(streamSize)},
	).want("Sandbox.Dial, from the sandbox", 0.4)
	r := compare(b, "calls", "connect by the way out, "+where, 300,
		side{name: "podagent", timed: leave.ask(b, fmt.Sprintf("connect raw.test:%d", o.raw))},
		side{name: "from here", do: o.connect},
	)
	r.limit(fmt.Sprintf("from here + %d ms", egressConnect), r.Peers[0].Median+egressConnect)
	open := &pod{launch(wayout.Off), nil}
	r = compare(b, "calls", "exec true within a fence, "+where, 300,
		side{name: "podagent", do: p.run(b, "true")},
		side{name: "podagent without a fence", do: open.run(b, "true")},
	)
	r.limit(fmt.Sprintf("podagent without a fence + %v ms", fenceCost), r.Peers[0].Median+fenceCost)
	measureEgressMemory(b, where, &pod{launch(wayout.Mode(wayout.Advisory)), nil}, o)
}

// measureEgressMemory measures the agent with many connections that move bytes.
func measureEgressMemory(b *testing.B, where string, p *pod, o *outside) {
	b.Helper()
	o.serve(b, p)
	leave := p.startLeaver(b)
	empty := p.agentMemory(b)
	leave.answer(b, fmt.Sprintf("open raw.test:%d %d", o.raw, egressConns))
	idle := p.agentMemory(b)
	moved := make(chan struct{})
	go func() {
		defer close(moved)
		leave.answer(b, fmt.Sprintf("echo %d %d", 64<<10, 32))
	}()
	most := idle
	for done := false; !done; {
		most = max(most, p.agentMemory(b))
		select {
		case <-moved:
			done = true
		case <-time.After(10 * time.Millisecond):
		}
	}
	publish(b, newRow("cost", fmt.Sprintf("most memory of an agent with %d connections by the way out that move bytes, %s", egressConns, where), "MiB", once("podagent", most)).
		beside(once("the same, idle", idle)).beside(once("without connections", empty))).limit("limit", egressMemory)
}

// agentMemory returns the resident memory of the sandbox's agent in MiB, which a command of the
// sandbox reads: the agent is its parent.
func (p *pod) agentMemory(b *testing.B) float64 {
	out, err := p.Command(b.Context(), "sh", "-c", "grep VmRSS /proc/$PPID/status").Output()
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

// leaver is command leave in a sandbox.
type leaver struct {
	input  io.Writer
	output *bufio.Reader
}

func (p *pod) startLeaver(b *testing.B) *leaver {
	b.Helper()
	p.install(b, "leave", "./testdata/leave")
	cmd := p.Command(b.Context(), "./leave")
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
	return &leaver{input, bufio.NewReader(output)}
}

// ask returns a call that measures itself.
func (l *leaver) ask(b *testing.B, request string) func() (time.Duration, error) {
	return func() (time.Duration, error) { return l.request(request) }
}

func (l *leaver) answer(b *testing.B, request string) {
	b.Helper()
	if _, err := l.request(request); err != nil {
		b.Error(err)
	}
}

func (l *leaver) request(request string) (time.Duration, error) {
	if _, err := fmt.Fprintln(l.input, request); err != nil {
		return 0, err
	}
	line, err := l.output.ReadString('\n')
	if err != nil {
		return 0, fmt.Errorf("%s: %w", request, err)
	}
	took, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %s", request, line)
	}
	return time.Duration(took), nil
}
