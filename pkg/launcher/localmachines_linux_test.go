//go:build linux && !race

package launcher_test

import (
	"path/filepath"
	"testing"

	"github.com/podagent/podagent/pkg/podapi/isolation"
)

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
