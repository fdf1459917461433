package e2e

import (
	"bufio"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// The tests of this file are about processes whose parents have ended. They become
// children of the agent, which did not start them.

// The number of orphans, and of the commands that run beside them and then end all
// at once. A pod may have 2048 processes, zombies included.
const (
	orphans      = 10_000
	orphanMakers = 10
	orphanBeside = 1000
)

// whileRoom makes a script wait, every twentieth time, until a pod has room for more
// processes. If nobody reaps the zombies, it waits for ever.
const whileRoom = "[ $((i % 20)) -gt 0 ] || while set -- /proc/[0-9]*; [ $# -gt 1500 ]; do :; done"

func Test10000OrphansBeside1000ExecsLeaveNoZombieAndNoWrongStatus(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		agent, boot := agentPID(t, s), harness.BootOf(t, s)
		if s.PodName() != "" && agent != 1 {
			t.Errorf("the agent of the pod is process %d", agent)
		}
		// The commands run while the FIFO is open for writing.
		harness.Run(t, s, "mkfifo gate", nil)
		gate := begin(t, s, "exec 3<>gate; echo; read _ <&3")
		var begun, all sync.WaitGroup
		beginOne := func(script string, code int) {
			begun.Add(1)
			all.Go(func() {
				cmd := begin(t, s, script)
				begun.Done()
				cmd.check(t, code)
			})
		}
		for i := range orphanBeside {
			beginOne(fmt.Sprintf("exec 3<gate; echo; read _ <&3; exit %d", i%90), i%90)
		}
		begun.Wait()
		room := ":"
		if s.PodName() != "" {
			room = whileRoom
		}
		// Both children of each subshell end at the same time, in either order.
		for range orphanMakers {
			beginOne(fmt.Sprintf("echo; i=0; while [ $i -lt %d ]; do %s; (exit 99 & exit 98); i=$((i + 1)); done; exit 97", orphans/orphanMakers, room), 97)
		}
		begun.Wait() // orphans are being made while the other commands end
		if err := gate.cmd.Process.Signal(syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		gate.check(t, 128+int(syscall.SIGKILL))
		all.Wait()
		harness.Await(t, "the end of the last zombie", func() bool { return zombies(t, s) == "" })
		if pid := agentPID(t, s); pid != agent || harness.BootOf(t, s) != boot {
			t.Errorf("the agent has restarted: it was process %d of boot %s, and is %d", agent, boot, pid)
		}
	})
}

// begunCommand is a script that is running.
type begunCommand struct {
	cmd    *podapi.Cmd
	stderr *strings.Builder
	err    error
}

// begin runs a script with a shell that starts fast. It returns once the script has
// printed a line.
func begin(t *testing.T, s *launcher.Sandbox, script string) begunCommand {
	b := begunCommand{s.Command(t.Context(), "sh", "-c", script), &strings.Builder{}, nil}
	b.cmd.Stderr = b.stderr
	out, err := b.cmd.StdoutPipe()
	if err == nil {
		err = b.cmd.Start()
	}
	if err == nil {
		_, err = bufio.NewReader(out).ReadString('\n')
	}
	b.err = err
	return b
}

// check checks the end of the script.
func (b begunCommand) check(t *testing.T, code int) {
	t.Helper()
	if b.err != nil {
		t.Errorf("a script did not begin: %v, %.200q", b.err, b.stderr)
		return
	}
	err := b.cmd.Wait()
	if status := b.cmd.Process.Status(); status == nil || status.Code != code || b.stderr.Len() > 0 {
		t.Errorf("a script ended with %v, want exit status %d: %.200q", err, code, b.stderr)
	}
}

// zombies returns the stat lines of a pod's zombies, or of those that are children
// of a local sandbox's agent.
func zombies(t *testing.T, s *launcher.Sandbox) string {
	t.Helper()
	// The shell itself does all of this, so it has no children.
	out, _, _ := harness.Run(t, s, `
for file in /proc/[0-9]*/stat; do
	{ read -r stat < $file; } 2> /dev/null || continue
	set -- ${stat##*) }
	if [ "$1" = Z ] && { [ $PPID = 1 ] || [ "$2" = $PPID ]; }; then echo "$stat"; fi
done`, nil)
	return out
}

func TestOrphanBecomesAChildOfTheAgent(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		// The orphan waits until the agent is its parent.
		_, _, status := harness.Run(t, s, `
agent=$PPID
orphan() {
	until read -r stat < /proc/self/stat && set -- ${stat##*) } && [ "$2" = $agent ]; do sleep 0.02; done
	echo > adopted
}
(orphan > /dev/null 2>&1 &)`, nil)
		if !status.Success() {
			t.Fatal(status)
		}
		harness.Await(t, "the adoption", func() bool {
			_, err := s.Stat(t.Context(), "adopted")
			return err == nil
		})
		harness.Await(t, "the end of the orphan", func() bool { return zombies(t, s) == "" })
	})
}
