//go:build !race

package agent_test

// The race detector has its own memory for every byte that the agent ever used.

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// hung is how long a test waits for something that must happen.
const hung = 2 * time.Minute

// idleMemory is how many KiB an idle agent has at most.
const idleMemory = 15 << 10

// After uploads, the agent gives their memory back to the sandbox.
func TestIdleAgentGivesMemoryBack(t *testing.T) {
	s := launchertest.Sandbox(t)
	var uploads sync.WaitGroup
	for i := range 32 {
		uploads.Go(func() {
			if err := s.WriteFile(t.Context(), fmt.Sprint(i), make([]byte, 4<<20), 0o666); err != nil {
				t.Error(err)
			}
		})
	}
	uploads.Wait()
	wantIdle(t, s)
}

func TestIdleAgentKeepsNothingOfCheckpoints(t *testing.T) {
	s := launchertest.Sandbox(t)
	if err := s.Shell(t.Context(), "for d in $(seq 100); do mkdir $d; for f in $(seq 50); do echo $d $f > $d/$f; done; done").Run(); err != nil {
		t.Fatal(err)
	}
	c, err := s.Checkpoint(t.Context(), checkpoint.CreateOptions{})
	if err == nil {
		err = s.Shell(t.Context(), "rm -r 1").Run()
	}
	if err == nil {
		_, err = s.Restore(t.Context(), c.ID, checkpoint.RestoreOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	wantIdle(t, s)
}

// wantIdle waits until the agent of a sandbox has no more memory than an idle one.
func wantIdle(t *testing.T, s *launcher.Sandbox) {
	t.Helper()
	parent, err := s.Shell(t.Context(), "echo $PPID").Output()
	if err != nil {
		t.Fatal(err)
	}
	busy := pss(t, strings.TrimSpace(string(parent)))
	least := busy
	for begun := time.Now(); time.Since(begun) < hung && least > idleMemory; time.Sleep(time.Second) {
		least = min(least, pss(t, strings.TrimSpace(string(parent))))
	}
	if t.Logf("%d KiB at first, %d KiB later", busy, least); least > idleMemory {
		t.Errorf("the agent keeps %d of %d KiB", least, busy)
	}
}

// pss returns the proportional set size of a process, in KiB.
func pss(t *testing.T, pid string) (kib int) {
	t.Helper()
	text, err := os.ReadFile("/proc/" + pid + "/smaps_rollup")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if _, err := fmt.Sscanf(line, "Pss: %d kB", &kib); err == nil {
			return kib
		}
	}
	t.Fatalf("no Pss in %s", text)
	return 0
}
