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

	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// hung is how long a test waits for something that must happen.
const hung = 2 * time.Minute

// After uploads, the agent gives their memory back to the sandbox.
func TestIdleAgentGivesMemoryBack(t *testing.T) {
	s := launchertest.Sandbox(t)
	parent, err := s.Shell(t.Context(), "echo $PPID").Output()
	if err != nil {
		t.Fatal(err)
	}
	var uploads sync.WaitGroup
	for i := range 32 {
		uploads.Go(func() {
			if err := s.WriteFile(t.Context(), fmt.Sprint(i), make([]byte, 4<<20), 0o666); err != nil {
				t.Error(err)
			}
		})
	}
	uploads.Wait()
	busy := pss(t, strings.TrimSpace(string(parent)))
	least := busy
	for begun := time.Now(); time.Since(begun) < hung && least > 24<<10; time.Sleep(time.Second) {
		least = min(least, pss(t, strings.TrimSpace(string(parent))))
	}
	if t.Logf("%d KiB right after the uploads, %d KiB later", busy, least); least > 24<<10 {
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
