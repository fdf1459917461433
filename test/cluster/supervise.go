package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// check returns nil if a program is running and healthy, and otherwise the reason.
func (c *cluster) check(ctx context.Context, p program) error {
	running, ok := c.running(p)
	if !ok {
		return fmt.Errorf("%s does not run", p.name)
	}
	if !running.current() {
		return fmt.Errorf("%s runs from a file that was replaced", p.name)
	}
	if err := p.healthy(ctx); err != nil {
		return fmt.Errorf("%s is not healthy: %w", p.name, err)
	}
	return nil
}

// ensure starts a program unless it is running and healthy.
func (c *cluster) ensure(ctx context.Context, p program) error {
	if running, ok := c.running(p); ok {
		if running.current() && c.waitHealthy(ctx, p, running, unhealthyGrace) == nil {
			return nil
		}
		c.say("starting %s again", p.name)
		if err := stop(ctx, []process{running}, false); err != nil {
			return err
		}
	}
	for _, address := range p.listens {
		if err := portFree(address); err != nil {
			return fmt.Errorf("cannot start %s: %w", p.name, err)
		}
	}
	began := time.Now()
	started, err := c.spawn(p)
	if err != nil {
		return err
	}
	if err := c.waitHealthy(ctx, p, started, startTimeout); err != nil {
		return fmt.Errorf("cannot start %s: %w; its log %s ends with:\n%s", p.name, err, c.logPath(p.name), c.tail(p.name))
	}
	c.say("%-18s %.1f s", p.name, time.Since(began).Seconds())
	return nil
}

// current reports whether a process runs the current file of its program, and not
// one that a build has replaced.
func (p process) current() bool {
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", p.PID))
	return err != nil || !strings.HasSuffix(exe, " (deleted)")
}

// waitHealthy waits until a program is healthy, while its process is alive.
func (c *cluster) waitHealthy(ctx context.Context, p program, running process, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var last error
	err := until(ctx, func() (bool, error) {
		if !running.alive() {
			return false, errors.New("it has ended")
		}
		last = p.healthy(ctx)
		return last == nil, nil
	})
	if err != nil && last != nil {
		return fmt.Errorf("%w (%w)", err, last)
	}
	return err
}

// restart ends one program and starts it again.
func (c *cluster) restart(ctx context.Context, name string, kill bool) error {
	if err := asRoot(); err != nil {
		return err
	}
	return c.locked(ctx, func(ctx context.Context) error {
		if !exists(c.pki("complete")) {
			return fmt.Errorf("cannot restart %s: the cluster in %s is down", name, c.dir)
		}
		for _, p := range c.programs() {
			if p.name == name {
				return c.restartProgram(ctx, p, kill)
			}
		}
		return fmt.Errorf("cannot restart %q: it is none of the cluster's programs", name)
	})
}

// restartProgram ends a program and starts it again, with this version's
// configuration.
func (c *cluster) restartProgram(ctx context.Context, p program, kill bool) error {
	if running, ok := c.running(p); ok {
		if err := stop(ctx, []process{running}, kill); err != nil {
			return err
		}
	}
	if err := c.prepare(ctx); err != nil {
		return err
	}
	if err := c.ensure(ctx, p); err != nil {
		return err
	}
	return c.waitUntilWell(ctx)
}
