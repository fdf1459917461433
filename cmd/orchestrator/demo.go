package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/pkg/launcher"
)

func demoCommand(a *app) *cobra.Command {
	var dir, test string
	var flags podFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show a short session on a real source tree",
		Long: `Demo does what an agent does with a source tree, step by step, in a sandbox of
its own: it copies the tree there, reads, searches, edits, runs tests, copies
the result to a temporary directory, and removes both. The tree itself is not
changed. With --backend local it needs no cluster, network or privileges.`,
		Example: `  orchestrator demo --backend local
  orchestrator demo --image registry.example.com/runtime:1 --dir src`,
		Args:              takes(0, 0),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			pod, err := flags.build(a)
			if err != nil {
				return err
			}
			root, err := demoDir(dir)
			if err != nil {
				return err
			}
			return a.demo(cmd.Context(), &demo{dir: root, test: test, pod: pod})
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "use the tree in `DIR` (default the git work tree around the current directory)")
	cmd.Flags().StringVar(&test, "test", "", "run the tests in this Go package `DIR` (default the tested package that is built the fastest)")
	flags.define(cmd)
	return cmd
}

// demoDir returns the tree for the demo: dir, or the git work tree that the
// current directory is in.
func demoDir(dir string) (string, error) {
	if dir != "" {
		info, err := os.Stat(dir)
		if err == nil && !info.IsDir() {
			return "", usagef("--dir %s is not a directory", quote(dir))
		}
		return dir, err
	}
	here, err := os.Getwd()
	for dir := here; err == nil; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", usagef("there is no git work tree around %s: give a tree by --dir DIR", quote(here))
		}
	}
	return "", err
}

// demo is a session on a copy of a source tree.
type demo struct {
	*demoPrinter
	a       *app
	sandbox *launcher.Sandbox
	dir     string // the tree here
	test    string // the package to test, empty for one of the demo's choice
	pod     launcher.Pod
	temp    string // where the result is copied to

	// What the steps learn for those that follow.
	paths []string // the files that were found
	file  string   // the one that is edited
	line  int64    // where in it
	mark  string   // what the edit adds
}

// demo runs the steps in a sandbox and a temporary directory that are removed
// however it ends.
func (a *app) demo(ctx context.Context, d *demo) (err error) {
	temp, err := os.MkdirTemp("", "orchestrator-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	begin := time.Now()
	d.demoPrinter, d.a, d.temp = newDemoPrinter(a), a, temp
	defer func() {
		if d.sandbox != nil {
			err = errors.Join(err, d.sandbox.Close())
		}
	}()
	if err := d.up(ctx); err != nil {
		return err
	}
	if err := d.session(ctx); err != nil {
		return &sandboxError{id: d.sandbox.ID, err: err}
	}
	return d.printf("\n%d steps in %s\n", d.steps, took(time.Since(begin)))
}

func (d *demo) session(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		d.push, d.instructions, d.glob, d.grep, d.read, d.edit, d.runTests, d.timeOut, d.pull, d.down,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// up launches the sandbox; closing it removes it.
func (d *demo) up(ctx context.Context) error {
	l, err := d.a.launcher()
	if err != nil {
		return err
	}
	spec := launcher.Spec{ID: "demo-" + strings.ToLower(rand.Text()[:6]), OnClose: launcher.CloseDelete, Pod: d.pod}
	title := "Start a sandbox in a pod"
	if d.a.backend.value == onThisHost {
		title = "Start a sandbox (the local backend: it isolates nothing)"
	}
	return d.step(title, []string{"orchestrator", "up", spec.ID}, func() error {
		d.sandbox, err = l.Launch(ctx, spec)
		if err != nil {
			return &sandboxError{id: spec.ID, launching: true, err: err}
		}
		served := "an agent serves " + d.sandbox.Workdir
		if pod := d.sandbox.PodName(); pod != "" {
			served += " in pod " + pod
		}
		d.result(served)
		return nil
	})
}

func (d *demo) down(ctx context.Context) error {
	return d.step("Remove the sandbox", d.command("down"), func() error {
		l, err := d.a.launcher()
		if err != nil {
			return err
		}
		if err := l.Terminate(ctx, d.sandbox.ID); err != nil {
			return &sandboxError{id: d.sandbox.ID, launching: true, err: err}
		}
		d.result("its processes and files are gone")
		return nil
	})
}

// took returns a time with three digits at most.
func took(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
