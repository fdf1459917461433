//go:build linux && !race

package launcher_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/podagent/podagent/pkg/podapi/isolation"
)

// A program that its user cannot read gets no namespaces. If it is the user's own, a sandbox within rules of Landlock may
// have made it so, and weakens no other by that. If it is another's, that is how it was installed.
func TestSandboxCannotWeakenOthersByTheModeOfTheProgram(t *testing.T) {
	for _, test := range []struct {
		name  string
		owner int
		mode  isolation.Mode
		fails string
	}{
		{"their own, auto", ordinaryUser, isolation.Auto, "chmod u+r"},
		{"their own, require", ordinaryUser, isolation.Require, "chmod u+r"},
		{"another's", 0, isolation.Auto, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			e := &errand{Dir: stage(t), UID: ordinaryUser, Mode: test.mode, Fails: test.fails}
			if test.fails == "" {
				e.Scripts = []string{"echo serves"}
			}
			agent := filepath.Join(e.Dir, "podagent")
			if err := errors.Join(os.Chown(agent, test.owner, test.owner), os.Chmod(agent, 0o111)); err != nil {
				t.Fatal(err)
			}
			e.run(t)
		})
	}
}

// Ordinary users need other rights for namespaces than root.
func TestAutoTakesTheStrongestLevelOfOrdinaryUsers(t *testing.T) {
	dir := stage(t)
	for i, m := range machines {
		t.Run(m.name, func(t *testing.T) {
			e := &errand{Dir: dir, Agent: "podagent-" + string(rune('a'+i)), UID: ordinaryUser, Mode: isolation.Auto, Level: &m.want, Scripts: []string{"echo works"}}
			writeFiltered(t, filepath.Join(dir, e.Agent), filepath.Join(dir, "podagent"), m.steps())
			e.run(t)
			if e.errs[0] != nil || e.outputs[0] != "works\n" {
				t.Errorf("a command printed %q: %v", e.outputs[0], e.errs[0])
			}
		})
	}
}
