package launcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/podagent/podagent/pkg/podapi"
)

// ErrEgress says that commands are kept from the network by less than is required.
var ErrEgress = errors.New("commands can leave the sandbox by other ways than its proxy")

// Egress says by which ways commands may leave a sandbox. Its zero value says nothing about that: they
// do what the network lets them. With a Mode the agent serves a proxy on the loopback, whose far end
// (package egress) is outside and decides, and keeps commands from other ways.
type Egress struct {
	// Mode is how commands are kept from other ways than the proxy. A mode that does not work in a
	// sandbox ends its agent, and so the launch fails.
	Mode EgressMode
	// Require fails the launch, and ends the agent, if commands are kept from other ways by less:
	// [podapi.EgressLandlock] or [podapi.EgressNetwork]; empty requires nothing. Without a Mode it
	// means EgressAuto.
	Require podapi.EgressLevel
	// LocalPorts are up to 64 ports of the sandbox's loopback that commands may connect to at the level
	// landlock, beside the proxy's. That level judges ports alone, so these are reached on other hosts, too.
	LocalPorts []int
}

// EgressMode is how commands are kept from other ways than the proxy.
type EgressMode string

const (
	EgressOff EgressMode = "off" // the default, also if empty: by nothing, and there is no proxy until a far end serves
	// EgressAuto: by the strongest level that works in the sandbox. Its Info says which.
	EgressAuto EgressMode = "auto"
	// EgressAdvisory: by nothing, but variables name the proxy, which programs may ignore.
	EgressAdvisory EgressMode = "advisory"
	// EgressLandlock: by the kernel, which lets them connect to the proxy's port and to LocalPorts alone.
	EgressLandlock EgressMode = "landlock"
	// EgressNetwork: by the network of the pod, which leads nowhere: see deploy/networkpolicy-egress.yaml.
	EgressNetwork EgressMode = "network"
)

// egressModes are all modes.
var egressModes = []EgressMode{EgressOff, EgressAuto, EgressAdvisory, EgressLandlock, EgressNetwork}

// maxLocalPorts bounds the ports of an Egress: each is an argument of the agent.
const maxLocalPorts = 64

// mode returns the Mode in force; empty for none.
func (e *Egress) mode() EgressMode {
	switch {
	case e.Mode == "" && e.Require != "":
		return EgressAuto
	case e.Mode == EgressOff:
		return ""
	}
	return e.Mode
}

// isolates reports whether the sandbox's network is to lead nowhere, where the cluster has a policy
// for that.
func (e *Egress) isolates() bool {
	return slices.Contains([]EgressMode{EgressAuto, EgressLandlock, EgressNetwork}, e.mode())
}

// checkEgress checks the fields of an Egress.
func (s *Spec) checkEgress() *SpecError {
	e := &s.Egress
	strongest := podapi.EgressLevel(e.mode())
	if e.mode() == EgressAuto {
		strongest = podapi.EgressNetwork
	}
	switch {
	case e.Mode != "" && !slices.Contains(egressModes, e.Mode):
		return &SpecError{"Egress.Mode", fmt.Sprintf("is %q: it is off, auto, advisory, landlock or network", e.Mode)}
	case !slices.Contains([]podapi.EgressLevel{"", podapi.EgressLandlock, podapi.EgressNetwork}, e.Require):
		return &SpecError{"Egress.Require", fmt.Sprintf("is %q: it is landlock or network", e.Require)}
	case e.Require != "" && !strongest.AtLeast(e.Require):
		return &SpecError{"Egress.Require", fmt.Sprintf("is %s, which the mode %s never comes up to", e.Require, cmp.Or(e.mode(), EgressOff))}
	case len(e.LocalPorts) > 0 && e.mode() == "":
		return &SpecError{"Egress.LocalPorts", "are set without a Mode"}
	case len(e.LocalPorts) > maxLocalPorts:
		return &SpecError{"Egress.LocalPorts", fmt.Sprintf("are %d: at most %d are allowed", len(e.LocalPorts), maxLocalPorts)}
	}
	for i, port := range e.LocalPorts {
		switch {
		case port < 1 || port > 65535:
			return &SpecError{"Egress.LocalPorts", fmt.Sprintf("has %d: ports are 1 to 65535", port)}
		case port == agentPort:
			return &SpecError{"Egress.LocalPorts", fmt.Sprintf("has %d, which is the agent's own", port)}
		case slices.Contains(e.LocalPorts[:i], port):
			return &SpecError{"Egress.LocalPorts", fmt.Sprintf("has %d twice", port)}
		}
	}
	return nil
}

// checkLocalEgress checks the Egress of a sandbox without a pod, whose network is this machine's.
func (s *Spec) checkLocalEgress() error {
	if problem := s.checkEgress(); problem != nil {
		return problem
	}
	const why = "is network, but a local sandbox has the network of this machine: landlock is the strongest there"
	switch {
	case s.Egress.Mode == EgressNetwork:
		return &SpecError{"Egress.Mode", why}
	case s.Egress.Require == podapi.EgressNetwork:
		return &SpecError{"Egress.Require", why}
	}
	return nil
}

// driftOf lists how the Egress that a sandbox was made with differs from what a Launch asks for, if
// that asks for any.
func (e *Egress) driftOf(asked *Egress) []string {
	if asked.mode() == "" {
		return nil
	}
	var drift []string
	for _, part := range [][3]string{
		{"egress", string(e.mode()), string(asked.mode())},
		{"egressRequire", string(e.Require), string(asked.Require)},
		{"egressPorts", fmt.Sprint(e.ports()), fmt.Sprint(asked.ports())},
	} {
		if part[1] != part[2] {
			drift = append(drift, fmt.Sprintf("%s is %s, not %s", part[0], cmp.Or(part[1], "unset"), cmp.Or(part[2], "unset")))
		}
	}
	return drift
}

// ports returns LocalPorts in order.
func (e *Egress) ports() []int { return slices.Sorted(slices.Values(e.LocalPorts)) }

// flags returns the agent's flags.
func (e *Egress) flags() []string {
	var flags []string
	if mode := e.mode(); mode != "" {
		flags = append(flags, "--egress="+string(mode))
	}
	if e.Require != "" {
		flags = append(flags, "--egress-require="+string(e.Require))
	}
	return append(flags, e.portFlags()...)
}

// portFlags returns the agent's flags for LocalPorts.
func (e *Egress) portFlags() []string {
	var flags []string
	for _, port := range e.ports() {
		flags = append(flags, fmt.Sprintf("--egress-port=%d", port))
	}
	return flags
}

// RequireEgress returns [ErrEgress] if commands are kept from other ways by less than a level. It asks
// the agent.
func (s *Sandbox) RequireEgress(ctx context.Context, level podapi.EgressLevel) error {
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
func unmet(required podapi.EgressLevel, is podapi.EgressInfo) string {
	switch {
	case is.Level.AtLeast(required):
		return ""
	case is.Level == podapi.EgressOpen:
		return fmt.Sprintf("the level %s is required, but the sandbox was made without an Egress, or its agent is too old for one", required)
	case is.Missing == "":
		return fmt.Sprintf("the level is %s, and %s is required", is.Level, required)
	}
	return fmt.Sprintf("the level is %s, and %s is required: %s", is.Level, required, is.Missing)
}

// stronger returns the stronger one of two levels.
func stronger(a, b podapi.EgressLevel) podapi.EgressLevel {
	if a.AtLeast(b) {
		return a
	}
	return b
}
