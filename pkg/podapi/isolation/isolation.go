// Package isolation names what keeps a sandbox that is a process of a machine from the rest of that
// machine: what asks for it, and what there is.
package isolation

import (
	"fmt"
	"slices"
)

// Level is what keeps a sandbox from the files, processes and network of its machine.
type Level string

// The levels, from the weakest.
const (
	// None: nothing does.
	None Level = ""
	// Landlock: the kernel refuses the agent and its commands all files but those of the sandbox and
	// the system's, and signals and the memory of other processes.
	Landlock Level = "landlock"
	// Namespaces: the agent and its commands have a file system, processes and a network of their own.
	Namespaces Level = "namespaces"
)

var levels = []Level{None, Landlock, Namespaces}

// AtLeast reports whether a level is as strong as another. An unknown one is weaker than all.
func (l Level) AtLeast(other Level) bool {
	return slices.Index(levels, l) >= slices.Index(levels, other)
}

// Mode says which level a sandbox is to have.
type Mode string

// The modes besides those that name a level, which there must be then.
const (
	// Off isolates nothing.
	Off Mode = "none"
	// Auto takes the strongest level that there can be.
	Auto Mode = "auto"
	// Require is Auto, but there must be one.
	Require Mode = "require"
)

// Allows reports whether a sandbox of a level is what the mode asks for.
func (m Mode) Allows(l Level) bool {
	switch m {
	case Off, Auto:
		return true
	case Require:
		return l != None
	}
	return l.AtLeast(Level(m))
}

// MayBe reports whether the mode can come to a level.
func (m Mode) MayBe(l Level) bool { return m == Auto || m == Require || m == Mode(l) }

// ParseMode returns the mode with this name.
func ParseMode(name string) (Mode, error) {
	switch m := Mode(name); m {
	case Off, Auto, Require, Mode(Landlock), Mode(Namespaces):
		return m, nil
	}
	return "", fmt.Errorf("%q is not auto, require, namespaces, landlock or none", name)
}

// ExitStatus is that of an agent that cannot isolate as it must: sysexits.h calls it EX_NOPERM.
const ExitStatus = 77

// Info says how a sandbox is isolated.
type Info struct {
	Level Level
	// Missing says why the level is not a stronger one.
	Missing string
	Limiter Limiter // what limits its processes and its memory
	// NoControlGroup says why the sandbox has no control group of its own that limits both.
	NoControlGroup string
}

// Limiter is what limits a sandbox as a whole.
type Limiter string

// The limiters, from the weakest.
const (
	// NoLimiter: nothing does.
	NoLimiter Limiter = ""
	// ResourceLimits limit its processes. At the level [Landlock] other processes of the user count, too.
	ResourceLimits Limiter = "rlimits"
	// ControlGroup: a control group limits processes and memory.
	ControlGroup Limiter = "cgroup"
)
