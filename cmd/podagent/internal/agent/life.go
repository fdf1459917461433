package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// lifetime is how long the agent serves.
type lifetime struct {
	mu sync.Mutex
	// expires is when it ends; zero for never.
	expires time.Time
	idle    idleLimit
	// changed is closed when expires changes.
	changed chan struct{}
}

// idleLimit says when the agent ends for want of work.
type idleLimit struct {
	// after is how long it may be idle; 0 for ever.
	after time.Duration
	// ignoresCommands lets it be idle while commands run, unless a call waits for them.
	ignoresCommands bool
}

// set makes the agent end at a later time. An earlier one changes nothing, unless it may be sooner.
func (l *lifetime) set(expires time.Time, sooner bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !sooner && !expires.After(l.expires) && l.changed != nil {
		return
	}
	l.expires = expires
	if l.changed != nil {
		close(l.changed)
	}
	l.changed = make(chan struct{})
}

func (l *lifetime) get() (expires time.Time, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.expires, l.changed
}

// setIdle sets how long the agent may be idle.
func (l *lifetime) setIdle(limit idleLimit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.idle = limit
}

func (l *lifetime) idleLimit() idleLimit {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.idle
}

// awaitEnd waits until the agent must end by itself, and returns the reason, or "" when
// ctx ends.
func (a *Agent) awaitEnd(ctx context.Context) string {
	for {
		expires, changed := a.life.get()
		wait, reason := a.untilEnd(expires)
		if wait <= 0 {
			return reason
		}
		a.rest()
		select {
		case <-ctx.Done():
			return ""
		case <-changed:
		case <-time.After(min(wait, lifePoll)): // the clock may be set, or a process end
		}
	}
}

// untilEnd returns the time until the agent ends by itself if nothing happens, and the
// reason. A working agent is not idle.
func (a *Agent) untilEnd(expires time.Time) (time.Duration, string) {
	wait, reason := lifePoll, ""
	if limit := a.life.idleLimit(); limit.after > 0 {
		wait, reason = limit.after-a.idleWithin(limit), fmt.Sprintf("idle for %v", limit.after)
	}
	if !expires.IsZero() && time.Until(expires) < wait {
		wait, reason = time.Until(expires), "expired at "+expires.UTC().Format(time.RFC3339)
	}
	return wait, reason
}

// serveUntil returns when the agent must end: ctx has ended, something has failed, or
// its time is over. The error decides the exit status.
func (a *Agent) serveUntil(ctx, life context.Context, failed <-chan error) error {
	due := make(chan string, 1)
	go func() { due <- a.awaitEnd(life) }()
	select {
	case err := <-failed:
		if exit, ok := errors.AsType[*ExitError](err); ok && exit.Code == 0 && a.config.endsItself() {
			return fmt.Errorf("%s has ended", exit.Name) // with 0 the agent would end for good
		}
		return err
	case reason := <-due:
		sayWhy(a.log, a.config.TerminationLog, reason)
	case <-ctx.Done():
		if a.config.endsItself() {
			return errStopped
		}
	}
	return nil
}

// errStopped is the error of an agent that may end by itself, but was stopped before.
// A container that exits with 0 may not be restarted, but this one must be.
var errStopped = errors.New("stopped by a signal")

// endsItself reports whether the agent may end without having been told to.
func (c *Config) endsItself() bool {
	return c.IdleTimeout > 0 || !c.Expires.IsZero() || c.AwaitAssignment
}

// sayWhy writes the reason of the agent's end to the log and to the status of its
// container.
func sayWhy(log *slog.Logger, path, reason string) {
	log.Info("ending", "reason", reason)
	if path == "" {
		return
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err == nil {
		_, err = file.WriteString(reason)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		log.Warn("cannot say why in the container's status", "error", err)
	}
}
