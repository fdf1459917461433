package launcher

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/podagent/podagent/pkg/podapi/isolation"
	"github.com/podagent/podagent/pkg/podapi/wayout"
)

// egress is a Spec's Egress as it is meant: a level that is required needs a mode.
func (s *Spec) egress() wayout.Config {
	e := s.Egress
	switch {
	case e.Mode == "" && e.Require != wayout.Open:
		e.Mode = wayout.Auto
	case e.Mode == wayout.Off:
		e.Mode = ""
	}
	e.Ports = slices.Sorted(slices.Values(e.Ports))
	return e
}

// isolates reports whether the sandbox's network is to lead nowhere, where the cluster has a policy
// for that.
func isolates(mode wayout.Mode) bool {
	return slices.Contains([]wayout.Mode{wayout.Auto, wayout.Mode(wayout.Landlock), wayout.Mode(wayout.Network)}, mode)
}

// maxEgressPorts bounds the ports of an Egress: each is an argument of the agent.
const maxEgressPorts = 64

// checkEgress checks the Egress of a Spec.
func (s *Spec) checkEgress() *SpecError {
	e := s.egress()
	if _, err := wayout.ParseMode(string(cmp.Or(e.Mode, wayout.Off))); err != nil {
		return &SpecError{"Egress.Mode", "is wrong: " + err.Error()}
	}
	strongest := wayout.Level(e.Mode)
	if e.Mode == wayout.Auto {
		strongest = wayout.Network
	}
	if e.Require != wayout.Open {
		if _, err := wayout.ParseRequired(string(e.Require)); err != nil {
			return &SpecError{"Egress.Require", "is wrong: " + err.Error()}
		}
		if !strongest.AtLeast(e.Require) || s.Egress.Mode == wayout.Off {
			return &SpecError{"Egress.Require", fmt.Sprintf("is %s, which the mode %s never comes up to", e.Require, cmp.Or(e.Mode, wayout.Off))}
		}
	}
	return checkEgressPorts(e)
}

func checkEgressPorts(e wayout.Config) *SpecError {
	wrong := func(msg string) *SpecError { return &SpecError{"Egress.Ports", msg} }
	switch {
	case len(e.Ports) == 0:
		return nil
	case e.Mode == "":
		return wrong("need an Egress.Mode")
	case len(e.Ports) > maxEgressPorts:
		return wrong(fmt.Sprintf("are %d: at most %d are allowed", len(e.Ports), maxEgressPorts))
	case e.Ports[0] == 0:
		return wrong("has 0: ports are 1 to 65535")
	case slices.Contains(e.Ports, agentPort):
		return wrong(fmt.Sprintf("has %d, which is the agent's own", agentPort))
	case len(slices.Compact(slices.Clone(e.Ports))) < len(e.Ports):
		return wrong("has a port twice")
	}
	return nil
}

// checkEgress checks the Egress of a sandbox without a pod, whose network is this machine's unless it has
// one of its own.
func (l *Local) checkEgress(s *Spec) error {
	if problem := s.checkEgress(); problem != nil {
		return problem
	}
	if l.isolation().MayBe(isolation.Namespaces) {
		return nil
	}
	const why = "is network, but a local sandbox has the network of this machine: landlock is the strongest there"
	switch {
	case s.Egress.Mode == wayout.Mode(wayout.Network):
		return &SpecError{"Egress.Mode", why}
	case s.Egress.Require == wayout.Network:
		return &SpecError{"Egress.Require", why}
	}
	return nil
}

// egressFlags returns the agent's flags.
func egressFlags(e wayout.Config) []string {
	var flags []string
	if e.Mode != "" {
		flags = append(flags, "--egress="+string(e.Mode))
	}
	if e.Require != wayout.Open {
		flags = append(flags, "--egress-require="+string(e.Require))
	}
	return append(flags, egressPortFlags(e)...)
}

// egressPortFlags returns the agent's flags for the ports.
func egressPortFlags(e wayout.Config) []string {
	var flags []string
	for _, port := range e.Ports {
		flags = append(flags, fmt.Sprintf("--local-port=%d", port))
	}
	return flags
}

// egressDrift lists how the way out that a sandbox was made with differs from what a Launch asks
// for, if that asks for any.
func egressDrift(is, asked wayout.Config) []string {
	if asked.Mode == "" {
		return nil
	}
	var drift []string
	for _, part := range [][3]string{
		{"egress", string(is.Mode), string(asked.Mode)},
		{"egressRequire", string(is.Require), string(asked.Require)},
		{"egressPorts", fmt.Sprint(is.Ports), fmt.Sprint(asked.Ports)},
	} {
		if part[1] != part[2] {
			drift = append(drift, fmt.Sprintf("%s is %s, not %s", part[0], cmp.Or(part[1], "unset"), cmp.Or(part[2], "unset")))
		}
	}
	return drift
}

// RequireEgress returns [ErrEgress] if the agent reports less than a level.
func (s *Sandbox) RequireEgress(ctx context.Context, level wayout.Level) error {
	info, err := s.Info(ctx)
	if err != nil {
		return err
	}
	if why := unmet(level, info.Egress); why != "" {
		return fmt.Errorf("%w: %s", ErrEgress, why)
	}
	return nil
}

// unmet says why what an agent reports is less than what is required; empty if it is not.
func unmet(required wayout.Level, is wayout.Info) string {
	switch {
	case is.Level.AtLeast(required):
		return ""
	case is.Level == wayout.Open:
		return fmt.Sprintf("the level %s is required, but the sandbox was made without an Egress, or its agent is too old for one", required)
	case is.Missing == "":
		return fmt.Sprintf("the level is %s, and %s is required", is.Level, required)
	}
	return fmt.Sprintf("the level is %s, and %s is required: %s", is.Level, required, is.Missing)
}

// stronger returns the stronger one of two levels.
func stronger(a, b wayout.Level) wayout.Level {
	if a.AtLeast(b) {
		return a
	}
	return b
}
