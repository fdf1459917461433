package portforward_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/internal/portforward"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi"
)

// podagentPort is the port on which the agent of a pod listens.
const podagentPort = 7463

// forwards are the ways to reach a port of a pod that are compared, this package
// first.
var forwards = []struct {
	name string
	dial dialFunc
}{
	{"own", (*portforward.Dialer).Dial},
	{"stock", stock(portforward.AsItIs)},
	{"stock-whole", stock(portforward.Whole)},
	{"stock-gathered", stock(portforward.Gathered)},
}

type dialFunc func(d *portforward.Dialer, ctx context.Context, namespace, pod string, port int) (net.Conn, error)

func stock(under portforward.Under) dialFunc {
	return func(d *portforward.Dialer, ctx context.Context, namespace, pod string, port int) (net.Conn, error) {
		return portforward.DialStock(ctx, d, under, namespace, pod, port)
	}
}

// BenchmarkCluster compares the forwards in the cluster of "make sandboxes", or in the
// one that [launchertest.KubeconfigEnv] names. They take turns, so that whatever else
// the machine does meets all alike. A ratio is the median of the rounds' ratios, with
// its 95 % interval.
//
//	go test -run '^$' -bench 'Cluster/(stat|echo64)' -benchtime 2000x ./pkg/launcher/internal/portforward
//	go test -run '^$' -bench 'Cluster/.*MiB' -benchtime 20x ./pkg/launcher/internal/portforward
func BenchmarkCluster(b *testing.B) {
	p := newPod(b)
	b.Run("stat", func(b *testing.B) {
		p.compare(b, p.stats(b))
	})
	b.Run("echo64", func(b *testing.B) {
		message := make([]byte, 64)
		p.compare(b, p.each(b, func(conn net.Conn) error { return echo(conn, message) }))
	})
	b.Run("write64MiB", func(b *testing.B) {
		p.compare(b, p.each(b, func(conn net.Conn) error { return send(conn, 64<<20) }))
	})
	b.Run("read64MiB", func(b *testing.B) {
		p.compare(b, p.each(b, func(conn net.Conn) error { return receive(conn, 64<<20) }))
	})
}

// pod is a sandbox in a pod that runs testdata/echo.
type pod struct {
	*launcher.Sandbox
	cluster  *launchertest.Cluster
	dialer   *portforward.Dialer
	echoPort int
}

func newPod(b *testing.B) *pod {
	b.Helper()
	c := launchertest.NewCluster(b, launcher.Restricted)
	s, err := c.By(b, launcher.ByPortForward).Launcher().Launch(b.Context(), c.Spec("forwards"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	d, err := portforward.New(c.Orchestrator)
	if err != nil {
		b.Fatal(err)
	}
	p := &pod{Sandbox: s, cluster: c, dialer: d}
	p.echoPort = p.startEcho(b)
	return p
}

func (p *pod) startEcho(b *testing.B) int {
	b.Helper()
	program := filepath.Join(b.TempDir(), "echo")
	build := exec.Command("go", "build", "-o", program, "./testdata/echo")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v: %v\n%s", build, err, out)
	}
	data, err := os.ReadFile(program)
	if err != nil {
		b.Fatal(err)
	}
	if err := p.WriteFile(b.Context(), "echo", data, 0o755); err != nil {
		b.Fatal(err)
	}
	cmd := p.Command(b.Context(), "./echo")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	port, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		b.Fatal(err)
	}
	return port
}

func (p *pod) dial(b *testing.B, forward, port int) net.Conn {
	b.Helper()
	conn, err := forwards[forward].dial(p.dialer, b.Context(), p.cluster.Namespace, p.PodName(), port)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	return conn
}

// each returns what do returns for each of the forwards.
func (p *pod) each(b *testing.B, do func(net.Conn) error) []func() error {
	b.Helper()
	var sides []func() error
	for i := range forwards {
		conn := p.dial(b, i, p.echoPort)
		sides = append(sides, func() error { return do(conn) })
	}
	return sides
}

// stats returns a call of the agent through each of the forwards.
func (p *pod) stats(b *testing.B) []func() error {
	b.Helper()
	var sides []func() error
	for i := range forwards {
		client, err := podapi.Dial(podapi.DialOptions{
			Identity: &p.cluster.Identity,
			Dial: func(context.Context) (net.Conn, error) {
				return p.dial(b, i, podagentPort), nil
			},
		})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = client.Close() })
		sides = append(sides, func() error {
			_, err := client.Stat(b.Context(), ".")
			return err
		})
	}
	return sides
}

func request(conn net.Conn, kind byte, size int) error {
	_, err := conn.Write(binary.BigEndian.AppendUint64([]byte{kind}, uint64(size)))
	return err
}

func echo(conn net.Conn, message []byte) error {
	if _, err := conn.Write(append(binary.BigEndian.AppendUint64([]byte{'e'}, uint64(len(message))), message...)); err != nil {
		return err
	}
	_, err := io.ReadFull(conn, message)
	return err
}

// send sends this many bytes, in writes of the size of a TLS record, and waits
// until the pod has them.
func send(conn net.Conn, size int) error {
	if err := request(conn, 'w', size); err != nil {
		return err
	}
	for chunk := make([]byte, 16<<10); size > 0; size -= len(chunk) {
		if _, err := conn.Write(chunk); err != nil {
			return err
		}
	}
	_, err := io.ReadFull(conn, make([]byte, 1))
	return err
}

func receive(conn net.Conn, size int) error {
	if err := request(conn, 'r', size); err != nil {
		return err
	}
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, io.LimitReader(conn, int64(size)), make([]byte, 32<<10))
	if err == nil && n != int64(size) {
		err = fmt.Errorf("%d bytes came", n)
	}
	return err
}

// compare lets the sides take turns, in reverse order every other round.
func (p *pod) compare(b *testing.B, sides []func() error) {
	b.Helper()
	times := make([][]float64, len(sides))
	once := func(i int) {
		begun := time.Now()
		if err := sides[i](); err != nil {
			b.Fatalf("%s: %v", forwards[i].name, err)
		}
		times[i] = append(times[i], float64(time.Since(begun).Nanoseconds()))
	}
	for i := range sides { // the first turn does not count
		once(i)
		times[i] = nil
	}
	for round := 0; b.Loop(); round++ {
		for i := range sides {
			if round%2 == 1 {
				i = len(sides) - 1 - i
			}
			once(i)
		}
	}
	b.ReportMetric(0, "ns/op") // the time of all sides together means nothing
	for i := range sides {
		b.ReportMetric(median(times[i])/1000, "µs-"+forwards[i].name)
		if i > 0 {
			low, middle, high := ratios(times[0], times[i])
			b.ReportMetric(low, "own/"+forwards[i].name+"-low")
			b.ReportMetric(middle, "own/"+forwards[i].name)
			b.ReportMetric(high, "own/"+forwards[i].name+"-high")
		}
	}
}

func median(values []float64) float64 {
	values = slices.Clone(values)
	slices.Sort(values)
	return values[len(values)/2]
}

// ratios returns the median of the rounds' ratios and its 95 % interval, by rank.
func ratios(own, other []float64) (low, middle, high float64) {
	all := make([]float64, len(own))
	for i := range own {
		all[i] = own[i] / other[i]
	}
	slices.Sort(all)
	n := float64(len(all))
	half := 0.98 * math.Sqrt(n)
	at := func(rank float64) float64 { return all[min(max(int(rank), 0), len(all)-1)] }
	return at(n/2 - half), at(n / 2), at(n/2 + half)
}
