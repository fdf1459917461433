// Demo does what an agent does with a source tree, step by step, in its own sandbox:
// it copies the tree there, reads, searches, edits, runs tests, copies the result to
// a temporary directory, and removes the sandbox and this directory. The tree itself
// is not changed.
//
//	demo -backend local
//	demo -backend kubernetes -image registry.example.com/runtime:1 -dir src
//
// It is an example of the libraries launcher, podapi and fsops, to read and to copy.
// With each step it prints the orchestrator's command line for the same action. Each
// step checks its effect. If one failed, the demo ends with status 1. Wrong flags end
// it with status 2.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi/isolation"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// With SIGPIPE handled, a write to a closed pipe returns an error, and the demo
	// removes the sandbox.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return
	}
	fmt.Fprintln(os.Stderr, "demo:", err)
	if errors.As(err, new(*usageError)) {
		os.Exit(2)
	}
	os.Exit(1)
}

// A usageError says which flag is wrong.
type usageError struct{ error }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// run parses the arguments and runs the demo.
func run(ctx context.Context, args []string, out, help io.Writer) error {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(help)
	name := flags.String("backend", "local", "`where` the sandbox runs: local, on this machine, or kubernetes, in a pod")
	mode := flags.String("isolation", string(isolation.Auto), "`what` keeps a local sandbox from this machine: namespaces, landlock, auto for the strongest that there can be, require for one at least, or none")
	image := flags.String("image", "", "the container `IMAGE` of the pod (default that of PODAGENT_IMAGE)")
	dir := flags.String("dir", "", "use the tree in `DIR` (default the git work tree around the current directory)")
	test := flags.String("test", "", "run the tests in this Go package `DIR` of the tree (default the smallest package whose tests need no other module)")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return err
	} else if err != nil {
		return &usageError{err}
	}
	if flags.NArg() > 0 {
		return usagef("%s: only flags are allowed", quote(flags.Arg(0)))
	}
	where, err := backendOf(*name, *image, isolation.Mode(*mode))
	if err != nil {
		return err
	}
	tree, err := treeDir(*dir)
	if err != nil {
		return err
	}
	d := &demo{printer: newPrinter(out), backend: where, dir: tree, test: *test}
	return d.run(ctx)
}

// A backend is where sandboxes run.
type backend struct {
	launcher launcher.Launcher
	pod      launcher.Pod
	// title is the title of the first step. settings makes the orchestrator use the
	// same backend.
	title, settings string
	upFlags         []string // of the command line that makes such a sandbox
	goEnv           []string // where isolated sandboxes have the user's Go
	builtEnv        []string // where they have what that has built, and how: they cannot write there
}

// backendOf returns the backend that the flags name.
func backendOf(name, image string, mode isolation.Mode) (backend, error) {
	switch {
	case name == "local" && image != "":
		return backend{}, usagef("-image %s: the local backend has no pods", quote(image))
	case name == "local":
		if _, err := isolation.ParseMode(string(mode)); err != nil {
			return backend{}, usagef("-isolation: %w", err)
		}
		return localBackend(mode), nil
	case name == "kubernetes":
		b := backend{launcher: new(launcher.Kubernetes), pod: launcher.Pod{Image: image}, title: "Start a sandbox in a pod"}
		if image != "" {
			b.settings = "PODAGENT_IMAGE=" + quote(image)
		}
		return b, nil
	}
	return backend{}, usagef("-backend %s: it must be local or kubernetes", quote(name))
}

// treeDir returns the tree for the demo: dir, or the git work tree that the
// current directory is in.
func treeDir(dir string) (string, error) {
	if dir != "" {
		info, err := os.Stat(dir)
		if path, ok := errors.AsType[*fs.PathError](err); ok {
			return "", usagef("-dir %s: %w", quote(dir), path.Err)
		}
		if err == nil && !info.IsDir() {
			return "", usagef("-dir %s: it is not a directory", quote(dir))
		}
		return dir, err
	}
	here, err := os.Getwd()
	for dir := here; err == nil; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", usagef("there is no git work tree around %s: name a tree with -dir DIR", quote(here))
		}
	}
	return "", err
}
