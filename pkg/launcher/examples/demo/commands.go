package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/podagent/podagent/pkg/podapi"
)

// testTimeout bounds the tests: long enough for a first build, short enough for a
// person who watches.
const testTimeout = 5 * time.Minute

// runTests runs the tests of a Go package, or, without one, a command that every
// sandbox has.
func (d *demo) runTests(ctx context.Context) error {
	pkg := "./" + path.Clean(d.test)
	if d.test == "" {
		var err error
		if pkg, err = d.testPackage(ctx); err != nil {
			return err
		}
	}
	if pkg == "" {
		return d.exec(ctx, "Run a command", d.sandbox.Shell(ctx, "ls | wc -l"), 0)
	}
	c := d.sandbox.Command(ctx, "go", "test", pkg)
	c.Env = slices.Concat(d.goEnv, d.builtEnv, []string{noNetwork})
	return d.exec(ctx, "Run tests, without the network", c, testTimeout)
}

// timeOut shows that a command with a timeout is ended.
func (d *demo) timeOut(ctx context.Context) error {
	c := d.sandbox.Shell(ctx, "echo working on it; sleep 60")
	c.Timeout = 500 * time.Millisecond
	return d.step("Run a command that takes too long", d.command("exec", execWords(c)...), func() error {
		if err := d.output(ctx, c); err != nil {
			return err
		}
		if s := c.Process.Status(); s.Reason != podapi.TimedOut {
			return fmt.Errorf("%s: it should have timed out, but ended with %v", c, s)
		}
		d.result("[the command timed out]")
		return nil
	})
}

// exec runs a command, which must succeed.
func (d *demo) exec(ctx context.Context, title string, c *podapi.Cmd, timeout time.Duration) error {
	c.Timeout = timeout
	return d.step(title, d.command("exec", execWords(c)...), func() error {
		if err := d.output(ctx, c); err != nil {
			return err
		}
		s := c.Process.Status()
		d.result(fmt.Sprintf("[%v]", s))
		switch {
		case !s.Success():
			return fmt.Errorf("%s: %v", c, s)
		case s.Stdout == 0:
			return fmt.Errorf("%s: it printed nothing", c)
		}
		return nil
	})
}

// output runs a command and prints its output as it comes. A failure of the command
// is no error here.
func (d *demo) output(ctx context.Context, c *podapi.Cmd) error {
	c.Stdout, c.Stderr = d, d
	err := c.Run()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil && !errors.As(err, new(*podapi.ExitError)) {
		return err
	}
	d.endResult()
	d.lines = 0 // so that the status is always shown
	return nil
}

// execWords returns the rest of the command line that runs a command.
func execWords(c *podapi.Cmd) []string {
	var words []string
	if c.Timeout > 0 {
		words = append(words, "--timeout "+c.Timeout.String())
	}
	for _, v := range c.Env {
		words = append(words, "--env "+quote(v))
	}
	if c.Script != "" {
		return append(words, "-- sh -c "+quote(c.Script))
	}
	return append(words, "-- "+c.String())
}
