package e2e

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// The tests of this file are about how commands end.

func TestExecEndsThoughAGrandchildHoldsItsOutput(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		out, _, status := harness.Run(t, s, "sleep infinity & echo $!", nil)
		if status.Reason != podapi.Exited || status.Code != 0 || !status.OutputOpen {
			t.Errorf("%+v, want an exit that says that the output is open", status)
		}
		// It is still alive: it was not killed with the call.
		if _, _, status := harness.Run(t, s, "kill "+out, nil); !status.Success() {
			t.Errorf("the grandchild is gone: %+v", status)
		}
	})
}

func TestExecTimeoutKillsTheTreeAndKeepsTheOutputSoFar(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		out, _, status := harness.Run(t, s, `echo begun; setsid sleep infinity & echo $!; sleep infinity`, func(c *podapi.Cmd) {
			c.Timeout = 10 * time.Second // a shell can start within this time
		})
		if status.Reason != podapi.TimedOut {
			t.Fatalf("%+v, want timed out", status)
		}
		begun, pid, _ := strings.Cut(out, "\n")
		if begun != "begun" {
			t.Errorf("the output so far is %q", out)
		}
		if alive(t, s, pid) {
			t.Error("the setsid child survived")
		}
	})
}

// alive reports whether a process of the sandbox runs. A zombie does not count.
func alive(t *testing.T, s *launcher.Sandbox, pid string) bool {
	t.Helper()
	state, _, _ := harness.Run(t, s, "sed -n 's/^State:[[:space:]]*\\(.\\).*/\\1/p' /proc/"+strings.TrimSpace(pid)+"/status", nil)
	state = strings.TrimSpace(state)
	return state != "" && state != "Z" && state != "X"
}

func TestExecOfACommandThatIgnoresTERMIsATimeout(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		_, _, status := harness.Run(t, s, `trap "" TERM; while :; do sleep 0.1; done`, func(c *podapi.Cmd) {
			c.Timeout = 300 * time.Millisecond
		})
		if status.Reason != podapi.TimedOut {
			t.Errorf("%+v, want timed out", status)
		}
	})
}

func TestExecSignal(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		cmd := s.Shell(t.Context(), `trap "echo got it; exit 3" USR1; echo ready; while :; do sleep 0.05; done`)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ready := make([]byte, len("ready\n"))
		if _, err := io.ReadFull(out, ready); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Process.Signal(syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
		rest, _ := io.ReadAll(out)
		err = cmd.Wait()
		if exit := (*podapi.ExitError)(nil); !errors.As(err, &exit) || exit.Code != 3 || string(rest) != "got it\n" {
			t.Errorf("%v, output %q", err, rest)
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("a signal after the end: %v", err)
		}
	})
}

func TestExecContextEndKillsTheProcess(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		ctx, cancel := context.WithCancel(t.Context())
		cmd := s.Shell(ctx, "echo $$; exec sleep 300")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		pid := make([]byte, 64)
		n, err := out.Read(pid)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := cmd.Wait(); !errors.Is(err, context.Canceled) {
			t.Errorf("Wait: %v", err)
		}
		// On a busy machine Wait may return before the agent has killed the
		// process.
		harness.Await(t, "end of the process with its context", func() bool { return !alive(t, s, string(pid[:n])) })
	})
}

func TestExecEndsThoughItsStdinDoesNot(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		r, w := io.Pipe()
		defer w.Close()
		cmd := s.Command(t.Context(), "true")
		cmd.Stdin = r
		if err := cmd.Run(); err != nil {
			t.Error(err)
		}
	})
}

func TestExecContextEndDuringTheStartLeavesNoProcess(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*100*time.Microsecond)
				defer cancel()
				if err := s.Command(ctx, "sleep", "infinity").Run(); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Run: %v", err)
				}
			})
		}
		all.Wait()
		harness.Await(t, "the end of all that was started", func() bool {
			list, err := s.Processes(t.Context())
			return err == nil && !slices.ContainsFunc(list, func(p podapi.ProcessInfo) bool { return p.Status == nil })
		})
	})
}

func TestExecWhoseOutputCannotBeWrittenIsKilled(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		full := errors.New("the caller's disk is full")
		cmd := s.Shell(t.Context(), "echo x; exec sleep 300")
		cmd.Stdout = failing{full}
		if err := cmd.Run(); !errors.Is(err, full) {
			t.Errorf("Run: %v", err)
		}
		if status := cmd.Process.Status(); status == nil || status.Reason != podapi.Signalled {
			t.Errorf("it ended with %+v", status)
		}
	})
}

func TestExecContextEndFreesAnOutputThatNobodyReads(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		cmd := s.Command(ctx, "yes")
		if _, err := cmd.StdoutPipe(); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		harness.Await(t, "output", func() bool { return process(t, s, cmd.ID).Stdout > 0 })
		cancel()
		if err := cmd.Wait(); !errors.Is(err, context.Canceled) {
			t.Errorf("Wait: %v", err)
		}
	})
}

func TestExecUnknownSignalLeavesTheProcess(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		cmd := s.Command(t.Context(), "cat")
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Process.Signal(99); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("Signal(99): %v", err)
		}
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("Wait: %v", err)
		}
	})
}
