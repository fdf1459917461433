package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/podagent/podagent/cmd/podagent/internal/proc/spawn"
)

// A command that stops whatever starts beside it holds up neither the agent nor, once it is
// killed, any other command.
func TestCommandThatStopsAllOthersHoldsUpNothingForGood(t *testing.T) {
	t.Run("PID 1", func(t *testing.T) {
		t.Log(helperOutput(t, inNamespace(helperCommand(t, "stopper"))))
	})
	t.Run("not PID 1", func(t *testing.T) {
		needsScopes(t)
		t.Log(helperOutput(t, inNamespace(helperCommand(t, "stopper", "sh", "-c",
			`mount --make-rprivate / && mount -t proc proc /proc && "$0"; exit $?`))))
	})
}

func helpStopper() error {
	if err := prepare(); err != nil {
		return err
	}
	m := newAlone()
	defer m.Shutdown(context.Background())
	stopper, err := startScript(m, `exec perl -e 'my $end = time + 300; kill STOP => -1 while time < $end'`)
	if err != nil {
		return err
	}
	begun, tries := time.Now(), 0
	for ; ; tries++ {
		_, err := startScript(m, ":")
		if errors.Is(err, spawn.ErrHeld) {
			break
		}
		if err != nil || time.Since(begun) > hung {
			return fmt.Errorf("after %d starts: %w", tries, err)
		}
	}
	runtime.GC()
	if err := stopper.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	if out, _, err := execute(m, "echo works"); err != nil || out != "works\n" {
		return fmt.Errorf("after its end: %q, %v", out, err)
	}
	fmt.Printf("start %d was held, all in %v\n", tries+1, time.Since(begun))
	return nil
}
