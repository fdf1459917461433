package launcher

import (
	"fmt"
	"slices"

	"github.com/podagent/podagent/pkg/podapi"
)

// confineLevels are the values of Pod.Confine, as "podagent serve --help" explains them.
var confineLevels = []string{"off", "filter", "domain"}

// confinedBy is what an agent's commands must be confined by at the levels that require
// something, in the words of its Info.
var confinedBy = map[string][]string{
	"filter": {"no-new-privileges", "syscall-filter"},
	"domain": {"no-new-privileges", "syscall-filter", "landlock-domain"},
}

// checkConfined returns an error if an agent confines its commands by less than the pod
// must have. An agent that was started otherwise, or is older, may.
func (p *Pod) checkConfined(info podapi.Info) error {
	for _, part := range confinedBy[p.Confine] {
		if !slices.Contains(info.Confinement, part) {
			return fmt.Errorf("the sandbox's commands are not confined by %s, as Pod.Confine %q requires", part, p.Confine)
		}
	}
	return nil
}
