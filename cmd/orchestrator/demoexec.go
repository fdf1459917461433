package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/podagent/podagent/pkg/fsops"
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
	c := d.sandbox.Command(ctx, "go", "test", "./"+pkg)
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

// testPackage returns the directory of the Go package to test; none if the
// tree is no Go module, or the sandbox has no go command.
func (d *demo) testPackage(ctx context.Context) (string, error) {
	if _, err := d.sandbox.Stat(ctx, "go.mod"); err != nil {
		return "", nil
	}
	if err := d.sandbox.Command(ctx, "go", "version").Run(); err != nil {
		return "", ctx.Err()
	}
	if d.test != "" {
		return path.Clean(d.test), nil
	}
	var files []fsops.Attr
	for attr, err := range d.sandbox.List(ctx, ".", fsops.ListOptions{Recursive: true}) {
		if err != nil && !errors.As(err, new(*fsops.SkippedError)) {
			return "", err
		}
		files = append(files, attr)
	}
	return smallestTested(files), nil
}

// smallestTested returns the directory of the Go package in the main module
// that has code and tests, and the least of them; empty if there is none.
func smallestTested(files []fsops.Attr) string {
	sizes, sourced, tested, modules := map[string]int64{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, f := range files {
		dir, name := path.Split(f.Path)
		dir = path.Clean(dir)
		switch {
		case name == "go.mod":
			modules[dir] = dir != "."
		case strings.HasSuffix(name, ".go"):
			sizes[dir] += f.Size
			if strings.HasSuffix(name, "_test.go") {
				tested[dir] = true
			} else {
				sourced[dir] = true
			}
		}
	}
	best := ""
	for dir, size := range sizes {
		if !tested[dir] || !sourced[dir] || !inModule(dir, modules) {
			continue
		}
		if best == "" || size < sizes[best] || size == sizes[best] && dir < best {
			best = dir
		}
	}
	return best
}

// inModule reports whether the go command takes dir for a package of the main
// module: not a directory that it passes over, nor in a module below it.
func inModule(dir string, modules map[string]bool) bool {
	for ; dir != "."; dir = path.Dir(dir) {
		name := path.Base(dir)
		if modules[dir] || name == "testdata" || name == "vendor" || name[0] == '.' || name[0] == '_' {
			return false
		}
	}
	return true
}
