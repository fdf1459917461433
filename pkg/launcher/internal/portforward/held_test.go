package portforward

import (
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// heldBound is how many bytes of heap and stacks an idle connection may hold after
// use. Most of that is TLS, and goroutines with their stacks.
const heldBound = 100 << 10

// A fleet has thousands of idle connections.
func TestIdleConnectionHoldsLittle(t *testing.T) {
	if protocol := os.Getenv(elsewhereEnv); protocol != "" { // in the process that serveElsewhere starts
		serveHere(t, protocol)
		return
	}
	for name := range protocols(t) {
		t.Run(name, func(t *testing.T) {
			_, used := heldByEach(t, serveElsewhere(t, name), dialOwn, holding.isLittle)
			if !used.isLittle() {
				t.Errorf("each connection holds %+v", used)
			}
		})
	}
}

// BenchmarkHeld measures what idle connections hold when they are new and after
// use, beside the stock client's.
func BenchmarkHeld(b *testing.B) {
	for _, client := range clients {
		b.Run(client.protocol+"/"+client.name, func(b *testing.B) {
			d := serveElsewhere(b, client.protocol)
			for b.Loop() {
				fresh, used := heldByEach(b, d, client.dial, func(holding) bool { return true })
				b.ReportMetric(0, "ns/op") // the time means nothing
				fresh.report(b, "new")
				used.report(b, "used")
			}
		})
	}
}

type dialFunc func(testing.TB, *Dialer) net.Conn

// holding is what a process or connection holds: bytes of heap and stacks, and
// goroutines.
type holding struct{ heap, stacks, goroutines float64 }

func (h holding) isLittle() bool { return h.heap+h.stacks <= heldBound }

func (h holding) report(b *testing.B, when string) {
	b.ReportMetric(h.heap/1024, "KiB-heap-"+when)
	b.ReportMetric(h.stacks/1024, "KiB-stacks-"+when)
	b.ReportMetric(h.goroutines, "goroutines-"+when)
}

// heldByEach returns what each of many connections holds, before and after a
// mebibyte was echoed over each. After that it measures again until enough returns
// true or the patience is over, because goroutines may take a while to end.
func heldByEach(tb testing.TB, d *Dialer, dial dialFunc, enough func(holding) bool) (fresh, used holding) {
	tb.Helper()
	const conns, size = 100, 1 << 20
	before := held()
	opened := make([]net.Conn, conns)
	for i := range opened {
		opened[i] = dial(tb, d)
	}
	fresh = held().perEach(before, conns)
	for _, conn := range opened {
		var wg sync.WaitGroup
		wg.Go(func() {
			for range size / chunk {
				_, _ = conn.Write(make([]byte, chunk))
			}
		})
		if _, err := io.CopyN(io.Discard, conn, size); err != nil {
			tb.Fatal(err)
		}
		wg.Wait()
	}
	for begun := time.Now(); ; {
		used = held().perEach(before, conns)
		if enough(used) || time.Since(begun) > patience {
			break
		}
	}
	for _, conn := range opened {
		_ = conn.Close()
	}
	ended := func() bool { return runtime.NumGoroutine() <= int(before.goroutines) }
	for begun := time.Now(); !ended() && time.Since(begun) < patience; {
		time.Sleep(10 * time.Millisecond)
	}
	return fresh, used
}

// held returns what this process holds after several collections: pools keep their
// contents for two of them.
func held() holding {
	for range 4 {
		time.Sleep(50 * time.Millisecond) // goroutines that are ending get some time; a caller measures again
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return holding{float64(m.HeapAlloc), float64(m.StackInuse), float64(runtime.NumGoroutine())}
}

func (h holding) perEach(before holding, n float64) holding {
	return holding{(h.heap - before.heap) / n, (h.stacks - before.stacks) / n, (h.goroutines - before.goroutines) / n}
}

// elsewhereEnv makes a process of this test serve, over the protocol that it names.
const elsewhereEnv = "PORTFORWARD_SERVE_ELSEWHERE"

// reachable tells how to reach a cluster in another process.
type reachable struct {
	Host string
	TLS  rest.TLSClientConfig
}

// serveHere serves as a cluster until standard input ends. It is its own process,
// so that its memory is not counted.
func serveHere(t *testing.T, protocol string) {
	c := newCluster(t, listen(t, echo))
	protocols(t)[protocol](c)
	if err := json.NewEncoder(os.Stdout).Encode(reachable{c.config().Host, c.config().TLSClientConfig}); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // until the other test ends
}

// serveElsewhere starts a cluster in a new process.
func serveElsewhere(tb testing.TB, protocol string) *Dialer {
	tb.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestIdleConnectionHoldsLittle$")
	cmd.Env = append(cmd.Environ(), elsewhereEnv+"="+protocol)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _, _ = in.Close(), cmd.Wait() })
	var at reachable
	if err := json.NewDecoder(out).Decode(&at); err != nil {
		tb.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	d, err := New(&rest.Config{Host: at.Host, BearerToken: token, TLSClientConfig: at.TLS})
	if err != nil {
		tb.Fatal(err)
	}
	return d
}
