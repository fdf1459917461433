package proc

import (
	"cmp"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/procfs"
)

// hangUp sends SIGHUP to the exec's own process, and to the members that have one of its standard
// streams. A member that nobody can look into gets it, too. If the own process cannot be looked
// into, or a scan fails, all get it.
func (t *tree) hangUp(own int) error {
	streams, err := procfs.Streams(own)
	if err != nil {
		return t.signal(unix.SIGHUP)
	}
	members, failed := t.members(func(member) {})
	if failed != nil {
		return cmp.Or(t.signalGroups(unix.SIGHUP), failed)
	}
	var left []member // which stay
	for _, m := range members {
		if m.pid != own && isApart(m.pid, streams) {
			left = append(left, m)
		}
	}
	if len(left) == 0 {
		return t.signal(unix.SIGHUP)
	}
	first := ignoreGone(unix.Kill(own, unix.SIGHUP))
	for _, m := range members {
		if m.pid == own || slices.Contains(left, m) {
			continue
		}
		if err := t.table.signal(m, unix.SIGHUP); err != nil {
			t.log.Warn("cannot signal a descendant", "pid", m.pid, "signal", int(unix.SIGHUP), "error", err)
		}
	}
	return first
}

// isApart reports whether a process certainly has none of the streams.
func isApart(pid int, streams []string) bool {
	has, err := procfs.Streams(pid)
	return err == nil && !slices.ContainsFunc(has, func(name string) bool { return slices.Contains(streams, name) })
}
