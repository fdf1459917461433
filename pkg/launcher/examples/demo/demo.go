package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi/isolation"
)

// demo is a session on a copy of a source tree.
type demo struct {
	*printer
	backend
	sandbox *launcher.Sandbox
	dir     string // the local tree
	test    string // the package to test; empty: the demo chooses one
	temp    string // the directory for the result

	// Set by steps for later steps.
	paths []string   // the files found
	file  string     // the file to edit
	line  int64      // the line to edit
	mark  string     // the text that the edit adds
	made  fsops.Edit // the edit
}

// run does the steps in a sandbox and a temporary directory, and always removes
// both.
func (d *demo) run(ctx context.Context) (err error) {
	d.temp, err = os.MkdirTemp("", "podagent-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(d.temp)
	begin := time.Now()
	defer func() {
		if d.sandbox != nil {
			err = errors.Join(err, d.sandbox.Terminate(context.WithoutCancel(ctx)))
		}
	}()
	for _, step := range []func(context.Context) error{
		d.up, d.push, d.instructions, d.glob, d.grep, d.read, d.edit, d.runTests, d.timeOut, d.escape, d.pull, d.down,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return d.printf("\n%d steps in %s, all successful\n", d.steps, took(time.Since(begin)))
}

// up launches the sandbox. run removes it, also if a step fails.
func (d *demo) up(ctx context.Context) error {
	spec := launcher.Spec{ID: "demo-" + strings.ToLower(rand.Text()[:6]), Pod: d.pod}
	command := []string{"orchestrator", "up", spec.ID}
	command = append(command, d.upFlags...)
	if d.settings != "" {
		command = append([]string{"export", d.settings + ";"}, command...)
	}
	return d.step(d.title, command, func() (err error) {
		d.sandbox, err = d.launcher.Launch(ctx, spec)
		if err != nil {
			return err
		}
		if !d.sandbox.Created {
			return errors.New("a sandbox with this id already existed")
		}
		served := "an agent serves " + d.sandbox.Workdir
		if pod := d.sandbox.PodName(); pod != "" {
			served += " in pod " + pod
		}
		d.result(served)
		if is := d.sandbox.Isolation; is.Level != isolation.None || is.Missing != "" {
			by := "isolated by: " + cmp.Or(string(is.Level), "nothing")
			if is.Missing != "" {
				by += "; not stronger because " + is.Missing
			}
			d.result(by)
		}
		return nil
	})
}

func (d *demo) down(ctx context.Context) error {
	return d.step("Remove the sandbox", d.command("down"), func() error {
		if err := d.sandbox.Terminate(ctx); err != nil {
			return err
		}
		left, err := d.launcher.List(ctx)
		if err != nil {
			return err
		}
		for _, s := range left {
			if s.ID == d.sandbox.ID {
				return fmt.Errorf("sandbox %s is still there: it is %s", s.ID, s.State)
			}
		}
		d.result("its processes and files are gone")
		return nil
	})
}

// command returns the command line of a verb in the demo's sandbox.
func (d *demo) command(verb string, args ...string) []string {
	return append([]string{"orchestrator", verb, d.sandbox.ID}, args...)
}
