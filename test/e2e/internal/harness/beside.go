package harness

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
)

// BootOf returns the id of an agent, which it keeps until it ends.
func BootOf(t *testing.T, s *launcher.Sandbox) string {
	t.Helper()
	info, err := s.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return info.BootID
}

// PeakMemory returns the most memory that a sandbox's agent ever had resident, in
// bytes.
func PeakMemory(t *testing.T, s *launcher.Sandbox) int64 {
	t.Helper()
	status, _, _ := Run(t, s, "cat /proc/$PPID/status", nil)
	for line := range strings.Lines(status) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kb << 10
		}
	}
	t.Fatalf("no VmHWM in %q", status)
	return 0
}

// Beside checks that, while something happens, all calls are answered, a command
// continues, and the agent does not restart.
func Beside(t *testing.T, s *launcher.Sandbox, happen func(ctx context.Context)) {
	t.Helper()
	boot := BootOf(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), Hung)
	defer cancel()
	other := s.Shell(ctx, "read -r line; exit 7")
	stdin, err := other.StdinPipe()
	if err == nil {
		err = other.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var both sync.WaitGroup
	both.Go(func() { keepCalling(ctx, t, s, done) })
	happen(ctx)
	close(done)
	both.Wait()
	stdin.Close()
	if err := other.Wait(); other.Process.Status() == nil || other.Process.Status().Code != 7 {
		t.Errorf("the other command ended with %v, %+v", err, other.Process.Status())
	}
	if BootOf(t, s) != boot {
		t.Error("the agent has restarted")
	}
}

// keepCalling makes rounds of calls that need no process, until done is closed.
func keepCalling(ctx context.Context, t *testing.T, s *launcher.Sandbox, done <-chan struct{}) {
	for rounds := 1; ; rounds++ {
		_, writeErr := s.Write(ctx, "calls/file", strings.NewReader("content"), fsops.WriteOptions{Parents: true})
		_, statErr := s.Stat(ctx, "calls")
		data, readErr := s.ReadFile(ctx, "calls/file")
		list, listErr := s.Processes(ctx)
		if err := errors.Join(writeErr, statErr, readErr, listErr); err != nil || string(data) != "content" || len(list) == 0 {
			t.Errorf("round %d of calls: read %q, %d processes: %v", rounds, data, len(list), err)
			return
		}
		select {
		case <-done:
			t.Logf("%d rounds of calls", rounds)
			return
		default:
		}
	}
}
