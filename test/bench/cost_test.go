package bench

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/egress"
	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/podapi"
)

// BenchmarkCost measures what an agent uses: processes on this machine, over a unix
// socket and over loopback, which is sandboxd's only way.
func BenchmarkCost(b *testing.B) {
	ours, theirs := podagentAgent(b), sandboxdAgent(b)
	size := func(a *agent) figure { return once(a.name, a.size(b)) }
	publish(b, newRow("cost", "size of the program", "MB", size(ours)).beside(size(theirs)))
	compare(b, "cost", "start, to the first call's answer", 20,
		side{name: "podagent", timed: ours.startUp(b)},
		side{name: "sandboxd", timed: theirs.startUp(b)},
	).limit("limit", 30)
	costOf(b, "idle", ours, theirs).limit("limit", 15)
	serving := serveNothing(b, ours)
	publish(b, newRow("cost", "memory (PSS), idle, with a far end that serves the way out", "MiB", once(ours.name, ours.memory(b)))).limit("limit", 15)
	serving.Close()
	for _, a := range []*agent{ours, theirs} {
		a.stopped(b)
		a.start(b)
		if err := a.load(); err != nil {
			b.Fatal(err)
		}
	}
	costOf(b, "after 64 files of 4 MiB and 64 processes at once", ours, theirs)
	time.Sleep(10 * time.Second)
	costOf(b, "ten seconds after that", ours, theirs)
}

// serveNothing makes this program the far end of an agent's way out, which allows nothing.
func serveNothing(b *testing.B, a *agent) *egress.Server {
	b.Helper()
	s, err := egress.Serve(context.Background(), dialSocket(b, a.socket), egress.Options{})
	if err != nil {
		b.Fatal(err)
	}
	time.Sleep(time.Second) // for everything that began with it to end
	return s
}

// costOf adds the rows for the agents' current state.
func costOf(b *testing.B, when string, ours, theirs *agent) *row {
	b.Helper()
	for _, a := range []*agent{ours, theirs} {
		a.start(b)
	}
	time.Sleep(time.Second) // for everything that began with them to end
	publish(b, newRow("cost", "file descriptors, "+when, "", once(ours.name, ours.descriptors(b))).beside(once(theirs.name, theirs.descriptors(b))))
	return publish(b, newRow("cost", "memory (PSS), "+when, "MiB", once(ours.name, ours.memory(b))).beside(once(theirs.name, theirs.memory(b))))
}

// agent is a program that serves on this machine.
type agent struct {
	name    string
	command []string
	socket  string       // podagent's
	answers func() error // reports whether the agent answers
	load    func() error // gives the agent work
	running *exec.Cmd
}

func podagentAgent(b *testing.B) *agent {
	dir := b.TempDir()
	socket := filepath.Join(dir, "s")
	a := &agent{name: "podagent", socket: socket, command: []string{podagentProgram(), "serve", "--listen", "unix:" + socket, "--workdir", dir, "--checkpoints", b.TempDir(), "--log-level", "ERROR"}}
	var client *podapi.Client
	a.answers = func() error {
		// A client would wait before its next try.
		conn, err := net.Dial("unix", socket)
		if err != nil {
			return err
		}
		conn.Close()
		if client != nil {
			client.Close()
		}
		client = dialSocket(b, socket)
		return client.Healthy(b.Context())
	}
	data := random(4 << 20)
	a.load = workers(func(i int) error {
		_, err := client.Write(b.Context(), fmt.Sprint("file", i), bytes.NewReader(data), fsops.WriteOptions{Sync: true})
		return err
	}, func(int) error { return client.Command(b.Context(), "true").Run() })
	return a
}

func dialSocket(b *testing.B, path string) *podapi.Client {
	b.Helper()
	client, err := podapi.Dial(podapi.DialOptions{Dial: func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { client.Close() })
	return client
}

func sandboxdAgent(b *testing.B) *agent {
	grpcPort, restPort := freePorts(b)
	a := &agent{name: "sandboxd", command: []string{
		build(b, "sandboxd", sandboxdPackage), "--listen-host=127.0.0.1",
		"--grpc-port", grpcPort, "--rest-port", restPort, "--root-dir", b.TempDir(),
	}}
	d := dialSandboxd(b, "127.0.0.1:"+grpcPort, "127.0.0.1:"+restPort)
	a.answers = func() error { return d.healthy(b) }
	data := random(4 << 20)
	a.load = workers(func(i int) error { return d.write(b, fmt.Sprint("file", i), data)() },
		func(int) error { return d.run(b, "true")() })
	return a
}

// workers returns a call that does each of these 64 times in parallel.
func workers(do ...func(i int) error) func() error {
	return func() error {
		for _, do := range do {
			i := make(chan int, 64)
			for n := range cap(i) {
				i <- n
			}
			if err := atOnce(cap(i), func() error { return do(<-i) })(); err != nil {
				return err
			}
		}
		return nil
	}
}

// freePorts returns two ports on which nobody listens.
func freePorts(b *testing.B) (first, second string) {
	var ports [2]string
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		defer l.Close() // only after the second port is chosen
		ports[i] = strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	}
	return ports[0], ports[1]
}

// start starts the agent if it does not run, and waits until it answers.
func (a *agent) start(b *testing.B) {
	b.Helper()
	if a.running != nil {
		return
	}
	a.running = exec.Command(a.command[0], a.command[1:]...)
	var output bytes.Buffer
	a.running.Stderr = &output
	if err := a.running.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { a.stopped(b) })
	if err := await(b.Context(), a.name+" does not answer", a.answers); err != nil {
		b.Fatalf("%v\n%s", err, &output)
	}
}

// stopped stops the agent if it runs.
func (a *agent) stopped(b *testing.B) {
	if a.running == nil {
		return
	}
	if err := a.running.Process.Kill(); err != nil {
		b.Error(err)
	}
	_ = a.running.Wait()
	a.running = nil
}

// startUp returns how long a start takes.
func (a *agent) startUp(b *testing.B) func() (time.Duration, error) {
	return func() (time.Duration, error) {
		a.stopped(b)
		begun := time.Now()
		a.start(b)
		return time.Since(begun), nil
	}
}

func (a *agent) size(b *testing.B) float64 {
	info, err := os.Stat(a.command[0])
	if err != nil {
		b.Fatal(err)
	}
	return float64(info.Size()) / 1e6
}

func (a *agent) proc(name string) string {
	return filepath.Join("/proc", strconv.Itoa(a.running.Process.Pid), name)
}

func (a *agent) descriptors(b *testing.B) float64 {
	list, err := os.ReadDir(a.proc("fd"))
	if err != nil {
		b.Fatal(err)
	}
	return float64(len(list))
}

// memory returns the proportional set size in MiB.
func (a *agent) memory(b *testing.B) float64 {
	b.Helper()
	return a.mebibytes(b, "smaps_rollup", "Pss")
}

// mostMemory returns the largest resident set size so far, in MiB.
func (a *agent) mostMemory(b *testing.B) float64 {
	b.Helper()
	return a.mebibytes(b, "status", "VmHWM")
}

// mebibytes returns a size that a file in /proc tells in KiB.
func (a *agent) mebibytes(b *testing.B, file, field string) float64 {
	b.Helper()
	text, err := os.ReadFile(a.proc(file))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if size, ok := strings.CutPrefix(line, field+":"); ok {
			kib, err := strconv.Atoi(strings.Fields(size)[0])
			if err != nil {
				b.Fatal(err)
			}
			return float64(kib) / 1024
		}
	}
	b.Fatalf("%s has no %s", a.proc(file), field)
	return 0
}
