//go:build !race

package e2e

// The tests of this file move gigabytes and measure the agent's memory. The race
// detector finds the same races in the smaller tests, a dozen times faster.

import (
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

func TestRoundTripOf1GiBKeepsTheAgentUnder64MiB(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		upload(t, s, "big", 1<<30, 1)
		harness.Download(t, s, "big", 1<<30, 1)
		peak := harness.PeakMemory(t, s)
		t.Logf("the agent used up to %d MiB", peak>>20)
		if peak > 64<<20 {
			t.Errorf("the agent used up to %d MiB, want at most 64", peak>>20)
		}
	})
}

// This test is only local, because with a cluster it would not measure just the
// agent.
func Test64StreamsKeepTheAgentUnder128MiB(t *testing.T) {
	t.Parallel()
	const streams = 64
	size := harness.Size(256 << 20) // a quarter is eight windows of a stream
	s := launchertest.Sandbox(t)
	// All streams share one source, because only the agent is measured.
	source := make([]byte, size)
	if _, err := io.ReadFull(harness.Pattern(size, 7), source); err != nil {
		t.Fatal(err)
	}
	want := fsops.SumOf(source)
	var all sync.WaitGroup
	for i := range streams {
		all.Go(func() {
			name := fmt.Sprint("stream", i)
			if err := s.WriteFile(t.Context(), name, source, 0o666); err != nil {
				t.Error(err)
				return
			}
			var sum summer
			if _, err := s.Read(t.Context(), name, &sum, fsops.ReadOptions{}); err != nil {
				t.Error(err)
			}
			if sum.sum != want {
				t.Errorf("%s came back different", name)
			}
			if err := s.Remove(t.Context(), name); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	peak := harness.PeakMemory(t, s)
	t.Logf("the agent had %d MiB at most", peak>>20)
	if peak > 128<<20 {
		t.Errorf("the agent used up to %d MiB, want at most 128", peak>>20)
	}
}

func TestStdinThroughCatIsIdenticalAndKeepsTheAgentUnder64MiB(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		size := harness.Size(1 << 30)
		cmd := s.Command(t.Context(), "cat")
		cmd.Stdin = harness.Pattern(size, 9)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		got, n := harness.SHA(t, out)
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		if want, _ := harness.SHA(t, harness.Pattern(size, 9)); got != want || n != size {
			t.Errorf("%d bytes came back, identical: %v", n, got == want)
		}
		if peak := harness.PeakMemory(t, s); peak > 64<<20 {
			t.Errorf("the agent had %d MiB at most, want 64", peak>>20)
		}
	})
}

// If servers do not read, the agent holds the data that was sent ahead. There is a
// limit on that for all connections together.
func TestStuckServersKeepTheAgentUnder128MiB(t *testing.T) {
	t.Parallel()
	s := launchertest.Sandbox(t)
	ports := harness.StartServer(t, s)
	var all sync.WaitGroup
	for range 512 {
		conn := harness.Dial(t, s, ports["stuck"])
		if err := conn.SetWriteDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		all.Go(func() { _, _ = io.Copy(conn, harness.Pattern(64<<20, 1)) })
	}
	all.Wait()
	peak := harness.PeakMemory(t, s)
	t.Logf("the agent had %d MiB at most", peak>>20)
	if peak > 128<<20 {
		t.Errorf("the agent had %d MiB at most, want 128", peak>>20)
	}
}
