package launcher

import (
	"context"
	"fmt"

	"github.com/podagent/podagent/pkg/podapi/wayout"
)

// egressFile is the policy by which the network of sandboxes leads nowhere.
const egressFile = "deploy/networkpolicy-egress.yaml"

// egressAdvice says how to get the strongest level.
const egressAdvice = "Apply " + egressFile + " in the sandboxes' namespace. The network plugin must enforce it, and no other policy may let these pods out."

// trialSpec is the Spec of the pod that is tried. Its agent tries whether commands could leave it, also if
// the Spec does not ask for that: a command of the Spec's own may need the network, others do not.
func (p *clusterPatient) trialSpec() *Spec {
	trial := p.spec
	if trial.egress().Mode == "" && len(trial.Pod.Main) == 0 {
		trial.Egress.Mode = wayout.Auto
	}
	return &trial
}

// checkEgress says what the agent found when it tried to leave.
func (p *clusterPatient) checkEgress(context.Context) Finding {
	return egressFinding(p.sandbox.Egress, p.spec.egress().Mode, egressAdvice)
}

// egressFinding says by which ways commands can leave a sandbox, whose Spec asked for this mode.
func egressFinding(is wayout.Info, asked wayout.Mode, advice string) Finding {
	text := map[wayout.Level]string{
		wayout.Open:     "its agent knows of no way out",
		wayout.Advisory: "variables alone name the proxy",
		wayout.Landlock: "commands reach the proxy's port, of any host, and no other",
		wayout.Network:  "its network leads nowhere, but by the agent",
	}[is.Level]
	said := fmt.Sprintf("level %s: %s", is.Level, text)
	if is.Missing != "" {
		said += "; not stronger because " + is.Missing
	}
	switch {
	case is.Level == wayout.Network, asked == wayout.Mode(is.Level) && asked != "":
		return passed("%s", said)
	case asked == "":
		return Finding{Verdict: NotChecked, Detail: "with a mode of egress, it is of the " + said + ". " + advice}
	}
	return warned(fmt.Errorf("it is of the %s", said), advice)
}
