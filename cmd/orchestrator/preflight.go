package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/podagent/podagent/pkg/launcher"
)

// A preflightError is a check that failed when a server started, and says what to do.
type preflightError struct{ finding launcher.Finding }

func (e *preflightError) Error() string {
	return fmt.Sprintf("cannot serve: %s", findingLine(e.finding))
}

// findingLine returns a failed check or a warning on one line.
func findingLine(f launcher.Finding) string {
	return oneLine(fmt.Sprintf("%s: %s: %s", f.Name, message(f.Err), f.Advice))
}

// preflight checks what sandboxes in pods need, as far as it can without making
// one. It only warns about things that sandboxes can do without.
func (a *app) preflight(ctx context.Context, l launcher.Launcher, spec launcher.Spec) error {
	k, ok := l.(*launcher.Kubernetes)
	if !ok {
		return nil
	}
	checks, cancel := context.WithTimeout(ctx, preflightTimeout)
	defer cancel()
	var failed []error
	for f := range k.Preflight(checks, spec) {
		f.Err = a.marked(f.Err)
		switch f.Verdict {
		case launcher.Failed:
			failed = append(failed, &preflightError{f})
		case launcher.Warned:
			a.note("warning: %s", findingLine(f))
		}
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case checks.Err() != nil && failed == nil:
		a.note("warning: not everything that sandboxes need could be checked within %v: \"orchestrator doctor\" checks all of it", preflightTimeout)
	}
	return errors.Join(failed...)
}
