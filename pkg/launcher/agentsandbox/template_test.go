package agentsandbox

import (
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// Policies add up: one that lets pods ask the DNS would undo another that lets nothing out.
func TestPolicyLetsNothingOutOfPodsWhoseCommandsLeaveByTheAgent(t *testing.T) {
	tunnelled := blueprint{PodTemplate: podTemplate{Metadata: podMetadata{Labels: map[string]string{podmeta.LabelEgress: podmeta.ByTunnel}}}}
	for _, connection := range launcher.Connections() {
		if p := policyFor(connection, isTunnelled(tunnelled)); p.Egress == nil || len(p.Egress) != 0 {
			t.Errorf("%s: they may connect to %+v", connection, p.Egress)
		}
		if p := policyFor(connection, isTunnelled(blueprint{})); len(p.Egress) != 2 {
			t.Errorf("%s: others may connect to %+v", connection, p.Egress)
		}
	}
}
