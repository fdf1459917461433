//go:build linux && !race

package launcher_test

import (
	"testing"

	"github.com/podagent/podagent/pkg/podapi/isolation"
)

// takeModes changes the modes of all that the sandbox's user has. In namespaces nothing of it
// is there but what is the sandbox's own.
const takeModes = `
mkdir -p ~/d/e d && touch ~/d/e/f d/f && chmod 0 ~/d/e d && chmod 300 ~/d && chmod 0 . || exit
cd ~/.. && chmod 0 ~ || exit
{
	chmod 0 sandbox.json agent.log agent.sock ../*.lock
	group=$(sed -n 's/^0:://p' /proc/self/cgroup)
	for tree in /sys/fs/cgroup /sys/fs/cgroup/unified; do
		above=$tree${group%/*/*}
		chmod 0 $tree$group/cgroup.* $tree${group%/*}/cgroup.* $tree$group $tree${group%/*} $above/cgroup.procs $above/cgroup.subtree_control
	done
	chmod 0 .
	chmod 777 ..
} 2>/dev/null
echo taken`

// What the user owns, the user's sandbox can chmod within rules of Landlock. It must not get out of its end by that,
// nor keep others from beginning.
func TestModesThatASandboxChangesLockNobodyOut(t *testing.T) {
	for _, level := range []isolation.Level{isolation.Namespaces, isolation.Landlock} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			dir := stage(t)
			groups, _ := groupsOf(t)
			hostile := errand{Dir: dir, UID: ordinaryUser, Mode: isolation.Mode(level), Scripts: []string{takeModes}}
			next := errand{Dir: dir, UID: ordinaryUser, Mode: isolation.Mode(level), Scripts: []string{"echo serves"}}
			if groups != "" {
				hostile.Group = delegate(t, groups, ordinaryUser)
				next.Group = hostile.Group
			}
			hostile.run(t)
			if hostile.errs[0] != nil || hostile.outputs[0] != "taken\n" {
				t.Fatalf("it printed %q, %v", hostile.outputs[0], hostile.errs[0])
			}
			next.run(t)
			if next.errs[0] != nil || next.outputs[0] != "serves\n" {
				t.Errorf("the next sandbox printed %q, %v", next.outputs[0], next.errs[0])
			}
		})
	}
}
