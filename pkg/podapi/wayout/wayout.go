// Package wayout names how commands leave a sandbox by the network: what asks for it, and
// what there is.
package wayout

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
)

// Level is what keeps commands from any way out of the sandbox but its proxy.
type Level string

// The levels, from the weakest.
const (
	// Open: nothing does, and there need be no proxy.
	Open Level = ""
	// Advisory: variables name the proxy, which programs may ignore.
	Advisory Level = "advisory"
	// Landlock: the kernel lets commands connect by TCP to the proxy's port and to a few others, of
	// any host, and to nothing else.
	Landlock Level = "landlock"
	// Network: the sandbox's network leads nowhere.
	Network Level = "network"
)

var levels = []Level{Open, Advisory, Landlock, Network}

// AtLeast reports whether a level is as strong as another. An unknown one is weaker than all.
func (l Level) AtLeast(other Level) bool {
	return slices.Index(levels, l) >= slices.Index(levels, other)
}

// String returns the level's name; that of [Open] is "open".
func (l Level) String() string { return cmp.Or(string(l), "open") }

// ParseRequired returns the level with this name, if it is one that can be required.
func ParseRequired(name string) (Level, error) {
	switch l := Level(name); l {
	case Landlock, Network:
		return l, nil
	}
	return "", fmt.Errorf("%q is not landlock or network", name)
}

// ExitStatus is that of an agent which ends because its level is weaker than it must be: sysexits.h
// calls it EX_CONFIG.
const ExitStatus = 78

// Mode says which level a sandbox is to have.
type Mode string

// The modes besides those that name a level, which there must be then.
const (
	// Off opens no proxy until a far end serves.
	Off Mode = "off"
	// Auto takes the strongest level that there can be.
	Auto Mode = "auto"
)

// UnmarshalJSON reads a mode, and false as [Off], which is what YAML makes of the word without quotes.
func (m *Mode) UnmarshalJSON(text []byte) error {
	if string(text) == "false" {
		*m = Off
		return nil
	}
	return json.Unmarshal(text, (*string)(m))
}

// ParseMode returns the mode with this name.
func ParseMode(name string) (Mode, error) {
	switch m := Mode(name); m {
	case Off, Auto, Mode(Advisory), Mode(Landlock), Mode(Network):
		return m, nil
	}
	return "", fmt.Errorf("%q is not off, auto, advisory, landlock or network", name)
}

// Config says how commands may leave a sandbox. The zero Config is [Off].
type Config struct {
	Mode Mode
	// Require, unless it is [Open], ends a sandbox whose level is weaker, before any command runs.
	Require Level
	// Ports are ports of the sandbox's loopback to which commands may connect at the level
	// [Landlock], as far as it knows hosts: see there.
	Ports []uint16
}

// Info says how commands can leave a sandbox.
type Info struct {
	Level Level
	// Port is the proxy's on 127.0.0.1; 0 means that there is none yet.
	Port int
	// Served says that a far end serves.
	Served bool
	// Missing says why the level is not a stronger one.
	Missing string
}
