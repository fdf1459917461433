// Package errclass names the errors of launchers: a gateway sends the name of an error's class, and
// its client makes the error of it.
package errclass

import (
	"errors"

	"github.com/podagent/podagent/pkg/launcher"
)

// Domain is that of a gateway's own errors in statuses of gRPC (google.rpc.ErrorInfo). Those of an agent pass
// a gateway without it.
const Domain = "podagent.gateway"

// classes are in the order in which they are tried: the first that fits counts.
var classes = []struct {
	err  error
	name string
}{
	{launcher.ErrNotFound, "no_sandbox"},
	{launcher.ErrPaused, "paused"},
	{launcher.ErrStale, "ended"},
	{launcher.ErrGone, "gone"},
	{launcher.ErrNotKept, "not_kept"},
	{launcher.ErrNoLifetime, "no_lifetime"},
	{launcher.ErrDeadline, "deadline"},
	{launcher.ErrOwned, "owned"},
	{launcher.ErrDrift, "drift"},
	{launcher.ErrEgress, "egress"},
	{launcher.ErrIsolation, "isolation"},
	{launcher.ErrImage, "image"},
	{launcher.ErrCannotStart, "cannot_start"},
	{launcher.ErrCrashLoop, "crash_loop"},
	{launcher.ErrNoStorageClass, "no_storage_class"},
	{launcher.ErrUnschedulable, "unschedulable"},
	{launcher.ErrNotReady, "not_ready"},
	{launcher.ErrRejected, "rejected"},
}

// Of returns the name of an error's class; empty if it is none of a launcher's.
func Of(err error) string {
	for _, c := range classes {
		if errors.Is(err, c.err) {
			return c.name
		}
	}
	return ""
}

// Error returns the error of a class; nil if this is none of a launcher's.
func Error(name string) error {
	for _, c := range classes {
		if c.name == name {
			return c.err
		}
	}
	return nil
}

// Names returns the names of all classes.
func Names() []string {
	names := make([]string, len(classes))
	for i, c := range classes {
		names[i] = c.name
	}
	return names
}
