package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
)

// The tests of this file are about processes whose parents have ended: they
// become the agent's children, which did not start them.

// How many there are, and how many commands run beside them, all at once. A pod
// may have 2048 processes, so that those that ended can't wait for long.
const (
	orphans      = 10_000
	orphanMakers = 10
	orphanBeside = 1000
)

func Test10000OrphansBeside1000ExecsLeaveNoZombieAndNoWrongStatus(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		agent, boot := agentPID(t, s), bootOf(t, s)
		if s.PodName() != "" && agent != 1 {
			t.Errorf("the agent of the pod is process %d", agent)
		}
		// Both forks of each end at once, in either order.
		script := fmt.Sprintf("i=0; while [ $i -lt %d ]; do (exit 99 & exit 98); i=$((i + 1)); done; exit 97", orphans/orphanMakers)
		var all sync.WaitGroup
		for range orphanMakers {
			all.Go(func() { checkCode(t, s, script, 97) })
		}
		for i := range orphanBeside {
			all.Go(func() { checkCode(t, s, fmt.Sprintf("exit %d", i%90), i%90) })
		}
		all.Wait()
		await(t, "the end of the last zombie", func() bool { return zombies(t, s) == "" })
		if pid := agentPID(t, s); pid != agent || bootOf(t, s) != boot {
			t.Errorf("the agent has restarted: it was process %d of boot %s, and is %d", agent, boot, pid)
		}
	})
}

// checkCode runs a script by a shell that starts fast, and checks how it ends.
func checkCode(t *testing.T, s *launcher.Sandbox, script string, code int) {
	t.Helper()
	cmd := s.Command(t.Context(), "sh", "-c", script)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	err := cmd.Run()
	if status := cmd.Status(); status == nil || status.Reason != podapi.Exited || status.Code != code || stderr.Len() > 0 {
		t.Errorf("%.40s ended with %v, want exit status %d: %.200q", script, err, code, &stderr)
	}
}

// zombies returns the zombies of a pod, or those that are children of a local
// sandbox's agent, as their stat files have them.
func zombies(t *testing.T, s *launcher.Sandbox) string {
	t.Helper()
	// All of it is done by the shell itself, which has no child then.
	out, _, _ := run(t, s, `
for file in /proc/[0-9]*/stat; do
	{ read -r stat < $file; } 2> /dev/null || continue
	set -- ${stat##*) }
	if [ "$1" = Z ] && { [ $PPID = 1 ] || [ "$2" = $PPID ]; }; then echo "$stat"; fi
done`, nil)
	return out
}

func TestOrphanBecomesAChildOfTheAgent(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		// The orphan waits until it is one.
		_, _, status := run(t, s, `
agent=$PPID
orphan() {
	until read -r stat < /proc/self/stat && set -- ${stat##*) } && [ "$2" = $agent ]; do sleep 0.02; done
	echo > adopted
}
(orphan > /dev/null 2>&1 &)`, nil)
		if !status.Success() {
			t.Fatal(status)
		}
		await(t, "the adoption", func() bool {
			_, err := s.Stat(t.Context(), "adopted")
			return err == nil
		})
		await(t, "the end of the orphan", func() bool { return zombies(t, s) == "" })
	})
}
