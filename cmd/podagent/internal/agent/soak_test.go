//go:build !race

package agent

// The soak would take a dozen times as long under the race detector, which finds
// the same races in the other tests.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/podapi"
)

const (
	// soakExecs is how many commands the soak runs, for some twenty seconds.
	// PODAGENT_SOAK_EXECS overrides it. Its first part runs twice as many commands
	// as the agent remembers after their end (proc), and cuts the connection.
	soakExecs = 10_000
	// soakWorkers run commands at the same time.
	soakWorkers = 8
	// soakSamples is how often the soak measures its usage after the first
	// measurement, which follows the first part, when the agent remembers as many
	// ended commands as it may.
	soakSamples = 4
	// soakCut is the number of commands between two cuts of the connection, and
	// soakOutput the size of the large outputs in bytes.
	soakCut    = 2000
	soakOutput = 64 << 10
	// soakGrowth is how many bytes the heap may grow between two samples. It holds
	// the ids of forgotten commands, up to some 100,000 (proc), and varies a
	// little.
	soakGrowth = 8 << 20
)

// TestSoakOfExecsKeepsMemoryDescriptorsAndGoroutinesFlat runs commands ("make soak"
// runs a million) through a client and an agent in this process. The connection is
// cut now and then.
func TestSoakOfExecsKeepsMemoryDescriptorsAndGoroutinesFlat(t *testing.T) {
	journals := t.TempDir()
	_, socket := serveTest(t, func(c *Config) { c.JournalDirs = []string{journals} })
	s := soak{execs: soakExecs / (soakSamples + 1)}
	s.client = dial(t, podapi.DialOptions{Dial: s.dialer(socket)})
	if text := os.Getenv("PODAGENT_SOAK_EXECS"); text != "" {
		total, err := strconv.ParseInt(text, 10, 64)
		if err != nil || total <= 0 {
			t.Fatalf("PODAGENT_SOAK_EXECS=%q is not a number of commands", text)
		}
		s.execs = total / (soakSamples + 1)
	}
	s.part(t)
	first := takeUsage(t)
	for range soakSamples {
		s.part(t)
		now := measure(t)
		for begun := time.Now(); !now.within(first) && time.Since(begun) < hung; now = measure(t) {
			time.Sleep(20 * time.Millisecond) // for the cleanup after the last calls
		}
		t.Logf("after %d commands: %v", s.done.Load(), now)
		if !now.within(first) {
			t.Errorf("after %d commands: %v, before: %v", s.done.Load(), now, first)
		}
	}
}

// soak runs commands in parts. Between parts, no command is running.
type soak struct {
	client *podapi.Client
	execs  int64 // per part
	done   atomic.Int64
	conn   atomic.Pointer[net.Conn] // the latest
}

// dialer connects to a socket, so that cut can close the connection.
func (s *soak) dialer(socket string) func(context.Context) (net.Conn, error) {
	dial := unixDialer(socket)
	return func(ctx context.Context) (net.Conn, error) {
		conn, err := dial(ctx)
		if err == nil {
			s.conn.Store(&conn)
		}
		return conn, err
	}
}

func (s *soak) cut() {
	if conn := s.conn.Load(); conn != nil {
		(*conn).Close()
	}
}

func (s *soak) part(t *testing.T) {
	t.Helper()
	last := s.done.Load() + s.execs
	var all sync.WaitGroup
	for range soakWorkers {
		all.Go(func() {
			for !t.Failed() {
				n := s.done.Add(1)
				if n > last {
					s.done.Add(-1)
					return
				}
				if err := s.exec(t.Context(), n); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// exec runs a command with known output and exit code. Of each eight commands, one
// has a terminal, one has a large output, one has a second client that waits for
// it, and two have standard input.
func (s *soak) exec(ctx context.Context, n int64) error {
	if n%soakCut == 0 {
		s.cut()
	}
	text, code := fmt.Sprint(n), int(n%7)
	want := text + "\n"
	cmd := s.client.Shell(ctx, fmt.Sprintf("echo %s; exit %d", text, code))
	switch n % 8 {
	case 0, 4:
		cmd.Script = fmt.Sprintf("read line; echo $line; exit %d", code)
		cmd.Stdin = bytes.NewBufferString(want)
	case 1:
		cmd.Terminal = &podapi.TerminalSize{Rows: 24, Columns: 80}
		want = text + "\r\n"
	case 3:
		cmd.Script = fmt.Sprintf("head -c %d /dev/zero; %s", soakOutput, cmd.Script)
		want = strings.Repeat("\x00", soakOutput) + want
	}
	run := runHere
	if n%8 == 5 {
		run = s.runLeft
	}
	var out bytes.Buffer
	p, err := run(ctx, cmd, &out)
	if p.Status() == nil || p.Status().Code != code || out.String() != want {
		return fmt.Errorf("command %d said %.20q (%d bytes) and ended with %v", n, &out, out.Len(), err)
	}
	return nil
}

// runHere runs a command.
func runHere(_ context.Context, c *podapi.Cmd, out io.Writer) (*podapi.Process, error) {
	c.Stdout = out
	err := c.Run()
	return c.Process, err
}

// runLeft starts a command, detaches, and attaches to it again.
func (s *soak) runLeft(ctx context.Context, c *podapi.Cmd, out io.Writer) (*podapi.Process, error) {
	if err := c.Start(); err != nil {
		return nil, err
	}
	// It may have ended already.
	if err := c.Process.Detach(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return nil, err
	}
	_ = c.Wait() // it reports the detachment
	p, err := s.client.Attach(ctx, c.ID, podapi.AttachOptions{Stdout: out})
	if err != nil {
		return nil, err
	}
	return p, p.Wait()
}

// usage is what grows in a process that leaks.
type usage struct {
	heap       int64 // in bytes
	goroutines int
	files      int
}

func (u usage) String() string {
	return fmt.Sprintf("%.1f MiB of heap, %d goroutines, %d descriptors", float64(u.heap)/(1<<20), u.goroutines, u.files)
}

// within reports whether usage has not grown, apart from the growth that the heap
// may have.
func (u usage) within(before usage) bool {
	return u.heap <= before.heap+soakGrowth && u.goroutines <= before.goroutines && u.files <= before.files
}

// takeUsage measures once the cleanup after the last calls is done, that is, once
// nothing decreases any more.
func takeUsage(t *testing.T) usage {
	t.Helper()
	least := measure(t)
	for still := 0; still < 20; still++ {
		time.Sleep(20 * time.Millisecond)
		now := measure(t)
		if now.goroutines < least.goroutines || now.files < least.files {
			still = 0
		}
		least = usage{min(least.heap, now.heap), min(least.goroutines, now.goroutines), min(least.files, now.files)}
	}
	return least
}

func measure(t *testing.T) usage {
	t.Helper()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return usage{int64(m.HeapAlloc), runtime.NumGoroutine(), len(files)}
}
