package bench

import (
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

var (
	scale    = flag.Int("scale", 2000, "how many sandboxes the group Scale opens; it lists two and a half times as many")
	profiles = flag.String("profiles", "", "directory for profiles of the process that the group Scale measures")
)

// BenchmarkScale measures one process with many open sandboxes, and a launcher among many
// sandboxes. Their pods are simulated, so the figures are of podagent and the API server
// alone, and no agent has work to do.
func BenchmarkScale(b *testing.B) {
	b.Run("open", benchmarkScaleOpen)
	b.Run("list", benchmarkScaleList)
}

// idlePatience is how long connections without a call may stay.
const idlePatience = 3 * time.Minute

// benchmarkScaleOpen opens the sandboxes in a process of its own, and runs a command in each.
// Then it leaves them alone.
func benchmarkScaleOpen(b *testing.B) {
	c := launchertest.NewCluster(b, launcher.Restricted)
	n := simulate(b, c)
	h := startHost(b, c, n)
	took, err := time.ParseDuration(h.ask(b, "open"))
	if err != nil {
		b.Fatal(err)
	}
	publish(b, newRow("scale", h.what("open", "and run a command in each"), "s", once("podagent", took.Seconds())))
	publish(b, newRow("scale", h.what("memory of a host of", "with connections"), "MiB", h.memory(b))).limit("limit", 512)
	h.profile(b, "connected")
	if !n.awaitIdle(b) {
		b.Fatalf("after %v without a call there are %v connections", idlePatience, n.connections(b))
	}
	h.measureIdle(b)
	h.awaitGivenBack(b)
	publish(b, newRow("scale", h.what("memory of a host of", "idle"), "MiB", h.memory(b))).limit("limit", 256)
	h.profile(b, "idle")
}

// host is internal/host.
type host struct{ *program }

func startHost(b *testing.B, c *launchertest.Cluster, n *simulated) *host {
	b.Helper()
	return &host{startProgram(b, build(b, "host", "./internal/host"),
		"-kubeconfig", c.WriteKubeconfig(b), "-namespace", c.Namespace, "-image", c.Image,
		"-identity", filepath.Join(b.TempDir(), "identity.pem"), "-node", n.name, "-count", strconv.Itoa(*scale))}
}

// what returns the name of a row.
func (h *host) what(before, after string) string {
	return fmt.Sprintf("%s %d sandboxes, %s", before, *scale, after)
}

// memory returns the process's resident memory, as the median of a few readings.
func (h *host) memory(b *testing.B) figure {
	b.Helper()
	var readings []float64
	for range 5 {
		readings = append(readings, h.residentMemory(b))
		time.Sleep(time.Second)
	}
	slices.Sort(readings)
	return once("podagent", readings[len(readings)/2])
}

// awaitGivenBack waits until the process gives no more memory back. Go's runtime collects garbage
// each two minutes at least (forcegcperiod in runtime/proc.go), and returns what is free bit by bit.
func (h *host) awaitGivenBack(b *testing.B) {
	b.Helper()
	const look, still, limit = 10 * time.Second, 150 * time.Second, 10 * time.Minute
	begun := time.Now()
	least, since := h.residentMemory(b), begun
	for time.Since(since) < still && time.Since(begun) < limit {
		time.Sleep(look)
		if now := h.residentMemory(b); now < least-1 {
			least, since = now, time.Now()
		}
	}
}

// measureIdle measures what the process does while nobody calls it, for as long as each
// sandbox has one heartbeat.
func (h *host) measureIdle(b *testing.B) {
	b.Helper()
	const seconds = float64(launcher.DefaultHeartbeat / time.Second)
	used, wrote := h.processorTime(b), h.askNumber(b, "writes")
	time.Sleep(launcher.DefaultHeartbeat)
	used, wrote = h.processorTime(b)-used, h.askNumber(b, "writes")-wrote
	publish(b, newRow("scale", h.what("processors used by a host of", "idle"), "", once("podagent", used.Seconds()/seconds))).limit("limit", 0.2)
	publish(b, newRow("scale", h.what("writes to the API server by a host of", "idle"), "/s", once("podagent", wrote/seconds)))
}

// profile writes what the process holds, if somebody wants to know.
func (h *host) profile(b *testing.B, name string) {
	b.Helper()
	if *profiles == "" {
		return
	}
	dir, err := filepath.Abs(*profiles)
	if err != nil {
		b.Fatal(err)
	}
	fmt.Printf("%s: %s\n", name, h.ask(b, "profile "+filepath.Join(dir, name)))
}
