// Package confine keeps the commands of a sandbox within a boundary of the kernel, which
// they inherit and cannot leave: no_new_privs, a filter of system calls (seccomp), and a
// Landlock domain.
//
// All three belong to a thread. So one lasting [Thread] starts all commands, and the
// program's other threads stay free. It is never the main thread: the kernel shows a
// process, and decides who may signal it, by that one. All commands share the one domain,
// so that they can signal, trace and talk to each other.
//
// What a thread refuses must not be called for all threads of the program
// (syscall.AllThreadsSyscall, and so syscall.Setuid and the like): the runtime ends a
// program whose threads do not agree.
//
// The package is for Linux.
package confine

import (
	"errors"
	"fmt"
	"strings"

	"github.com/podagent/podagent/cmd/podagent/internal/landlock"
)

// Level says how much of the boundary there must be.
type Level string

// The levels.
const (
	// Off starts commands without a boundary.
	Off Level = "off"
	// Auto takes what the kernel can do.
	Auto Level = "auto"
	// RequireFilter is Auto, but fails without no_new_privs and the filter.
	RequireFilter Level = "filter"
	// RequireDomain is RequireFilter, and fails without the domain, too.
	RequireDomain Level = "domain"
)

// ParseLevel returns the level with this name.
func ParseLevel(name string) (Level, error) {
	switch l := Level(name); l {
	case Off, Auto, RequireFilter, RequireDomain:
		return l, nil
	}
	return "", fmt.Errorf("%q is not off, auto, filter or domain", name)
}

// needs are the parts without which a level fails.
func (l Level) needs() Parts {
	switch l {
	case RequireFilter:
		return NoNewPrivs | Filter
	case RequireDomain:
		return NoNewPrivs | Filter | Domain
	}
	return 0
}

// Parts are parts of the boundary.
type Parts uint8

// The parts. All others need [NoNewPrivs], [Signals] needs [Domain], and [Network] needs
// [Filter].
const (
	// NoNewPrivs: no program gives its caller rights by its set-user-ID bit or its
	// capabilities.
	NoNewPrivs Parts = 1 << iota
	// Filter: the kernel refuses the system calls that filter_linux.go lists.
	Filter
	// Domain: commands can neither trace nor read processes outside of their domain, nor
	// connect to an abstract unix socket there.
	Domain
	// Signals: nor can they signal them. The thread's own signals then reach commands only.
	Signals
	// Network: the thread's [Fence] holds. It is there only if one is asked for.
	Network
	// Files: commands can use those files alone that are given, and no unix sockets but pairs of their own,
	// unless the kernel judges these by files, too. It is there only if some are given, and needs [Filter].
	Files

	end
)

var names = []string{"no-new-privileges", "syscall-filter", "landlock-domain", "signal-scope", "network-fence", "file-rules"}

// needs are the parts without which a part does nothing.
func (p Parts) needs() Parts {
	switch p {
	case NoNewPrivs:
		return 0
	case Signals:
		return NoNewPrivs | Domain
	case Network, Files:
		return NoNewPrivs | Filter
	}
	return NoNewPrivs
}

// Names returns the names of the parts.
func (p Parts) Names() []string {
	var list []string
	for i, name := range names {
		if p&(1<<i) != 0 {
			list = append(list, name)
		}
	}
	return list
}

// Fence says what commands may connect to. All their other ways into a network are refused:
// any socket but those of TCP, of the unix domain, and of the kernel's routes. They may
// listen, and take what connects to them.
//
// Landlock, which it is made of, knows ports and no addresses: a host anywhere is reached at
// these numbers, if the network leads there.
type Fence struct {
	// Ports are the ports that TCP may connect to. Without any it connects to nothing.
	Ports []uint16
}

// boundary is what a thread is put within.
type boundary struct {
	parts Parts
	fence *Fence          // of the part Network
	files []landlock.File // of the part Files
}

// ErrUnavailable says that the kernel cannot do what a level requires.
var ErrUnavailable = errors.New("the kernel, or what surrounds the sandbox, does not offer it")

// errOff says why there is no fence.
var errOff = fmt.Errorf("%s: commands are not confined, as requested", Network.Names()[0])

// Start starts a thread with what the level asks for, as far as the kernel can do it, and
// with a fence if one is given. Files, unless they are nil, are the only ones that
// commands can use, which every level requires. It finds out what the kernel can do by doing it on other
// threads, which then end. If it can do nothing, or nothing is asked for, the thread is nil.
// missing says why parts are missing. A lack of something, such as descriptors, memory or ports, is an
// error at every level. No level requires [Network]: whether the fence holds
// is for the caller to look at.
func Start(level Level, fence *Fence, files []landlock.File) (t *Thread, missing, err error) {
	if level == Off {
		if fence != nil {
			missing = errOff
		}
		return nil, missing, nil
	}
	parts, missing, err := probe(fence, files)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot confine commands: %w", err)
	}
	needs := level.needs()
	if files != nil {
		needs |= Files
	}
	if lacks := needs &^ parts; lacks != 0 {
		return nil, nil, fmt.Errorf("cannot confine commands by %s: %w: %w", strings.Join(lacks.Names(), ", "), ErrUnavailable, missing)
	}
	if parts == 0 {
		return nil, missing, nil
	}
	t, err = startThread(boundary{parts, fence, files})
	return t, missing, err
}
