package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/podagent/podagent/pkg/podapi"
)

// demoTestTimeout bounds the tests: long enough for a first build, and short
// enough for somebody who watches.
const demoTestTimeout = 2 * time.Minute

// runTests runs the tests of a Go package, or a command that every sandbox has.
func (d *demo) runTests(ctx context.Context) error {
	pkg, err := d.testPackage(ctx)
	if err != nil {
		return err
	}
	if pkg == "" {
		return d.run(ctx, "Run a command", d.sandbox.Shell(ctx, "ls | wc -l"), 0)
	}
	c := d.sandbox.Command(ctx, "go", "test", pkg)
	c.Env = []string{"GOPROXY=off"}
	return d.run(ctx, "Run tests, without the network", c, demoTestTimeout)
}

func (d *demo) timeOut(ctx context.Context) error {
	c := d.sandbox.Shell(ctx, "echo working on it; sleep 60")
	return d.run(ctx, "Run a command that takes too long", c, 500*time.Millisecond)
}

// run runs a command, and prints its output as it comes, and its end.
func (d *demo) run(ctx context.Context, title string, c *podapi.Cmd, timeout time.Duration) error {
	c.Timeout = timeout
	return d.step(title, d.command("exec", execWords(c)...), func() error {
		c.Stdout, c.Stderr = d, d
		err := c.Run()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && !errors.As(err, new(*podapi.ExitError)) {
			return err
		}
		d.ended(*c.Status())
		return nil
	})
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

// ended prints how a command ended.
func (d *demo) ended(s podapi.ExitStatus) {
	d.endResult()
	d.lines = 0 // that it ended is always shown
	if s.Reason == podapi.TimedOut {
		d.result("[the command ran into its timeout]")
	}
	d.result(fmt.Sprintf("[exit status %d]", commandStatus(s)))
}

// testedPackages has the go command list the packages that have code and tests,
// and all that they import, each with the number of packages to build for it.
const testedPackages = `{{if and .GoFiles (or .TestGoFiles .XTestGoFiles) (not .Incomplete)}}{{len .Deps}} {{.ImportPath}}{{end}}`

// testPackage returns the Go package to test: the one that is built the
// fastest, unless the user named one; none if the tree is no Go module, or the
// sandbox has no go command.
func (d *demo) testPackage(ctx context.Context) (string, error) {
	if d.test != "" {
		return "./" + path.Clean(d.test), nil
	}
	c := d.sandbox.Command(ctx, "go", "list", "-e", "-f", testedPackages, "./...")
	c.Env, c.Timeout = []string{"GOPROXY=off"}, demoTestTimeout
	list, err := c.Output()
	if err != nil {
		return "", ctx.Err()
	}
	fewest, best := 0, ""
	for line := range strings.Lines(string(list)) {
		var deps int
		var pkg string
		if _, err := fmt.Sscan(line, &deps, &pkg); err == nil && (best == "" || deps < fewest) {
			fewest, best = deps, pkg
		}
	}
	return best, nil
}
