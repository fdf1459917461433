package proc

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/cmd/podagent/internal/proc/spawn"
)

// rlimitResources are the resources by the names of setrlimit(2).
var rlimitResources = map[string]int{
	"as":         unix.RLIMIT_AS,
	"core":       unix.RLIMIT_CORE,
	"cpu":        unix.RLIMIT_CPU,
	"data":       unix.RLIMIT_DATA,
	"fsize":      unix.RLIMIT_FSIZE,
	"locks":      unix.RLIMIT_LOCKS,
	"memlock":    unix.RLIMIT_MEMLOCK,
	"msgqueue":   unix.RLIMIT_MSGQUEUE,
	"nice":       unix.RLIMIT_NICE,
	"nofile":     unix.RLIMIT_NOFILE,
	"nproc":      unix.RLIMIT_NPROC,
	"rss":        unix.RLIMIT_RSS,
	"rtprio":     unix.RLIMIT_RTPRIO,
	"rttime":     unix.RLIMIT_RTTIME,
	"sigpending": unix.RLIMIT_SIGPENDING,
	"stack":      unix.RLIMIT_STACK,
}

// rlimitFault says what is wrong with limits, or nothing.
func rlimitFault(limits []Rlimit) string {
	seen := map[string]bool{}
	for _, l := range limits {
		_, known := rlimitResources[l.Resource]
		switch {
		case l.Resource == "locks" || l.Resource == "rttime":
			return fmt.Sprintf("the limit of %s cannot be set: it marks what belongs to a process", l.Resource)
		case !known:
			return fmt.Sprintf("there is no resource limit %q", l.Resource)
		case l.Soft > l.Hard:
			return fmt.Sprintf("the soft limit of %s is above its hard limit", l.Resource)
		case seen[l.Resource]:
			return fmt.Sprintf("the limit of %s is given twice", l.Resource)
		}
		seen[l.Resource] = true
	}
	return ""
}

// limits are the limits of a spec as package spawn takes them.
func (s *Spec) limits() []spawn.Limit {
	var limits []spawn.Limit
	for _, l := range s.Rlimits {
		limits = append(limits, spawn.Limit{Resource: rlimitResources[l.Resource], Rlimit: unix.Rlimit{Cur: l.Soft, Max: l.Hard}})
	}
	return limits
}

// limitError says which limit could not be set, if that is what failed.
func limitError(err error) error {
	refused, ok := errors.AsType[*spawn.LimitError](err)
	if !ok {
		return err
	}
	l := refused.Limit
	for name, resource := range rlimitResources {
		if resource == l.Resource {
			return fmt.Errorf("cannot limit %s to %d (hard %d): %w", name, l.Cur, l.Max, err)
		}
	}
	return err
}
