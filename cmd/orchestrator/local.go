package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"

	"github.com/podagent/podagent/cmd/orchestrator/internal/flagvalue"
	"github.com/podagent/podagent/cmd/orchestrator/internal/settings"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi/isolation"
)

// localFlags say what keeps sandboxes of this machine from the rest of it.
type localFlags struct {
	isolation flagvalue.Choice
	readable  []string
	ephemeral flagvalue.InMemory
	limits    corev1.ResourceList // those of the flags for pods
	flags     *pflag.FlagSet      // these flags
}

func (l *localFlags) define() *pflag.FlagSet {
	flags := pflag.NewFlagSet("local", pflag.ContinueOnError)
	for _, mode := range []isolation.Mode{isolation.Auto, isolation.Require, isolation.Mode(isolation.Namespaces), isolation.Mode(isolation.Landlock), isolation.Off} {
		l.isolation.Words = append(l.isolation.Words, string(mode))
	}
	flags.Var(&l.isolation, "isolation", "what keeps new sandboxes of this machine from the rest of it: auto takes the strongest that there can be, require fails without any, and none is nothing (default auto)")
	flags.StringArrayVar(&l.readable, "readable", nil, "a `DIR` that isolated sandboxes of this machine can read, besides the system's; may be repeated")
	flags.Var(&l.ephemeral, "ephemeral", "have the files of new sandboxes of this machine in memory, each up to this size, until its agent ends; without a size, up to 1Gi; takes --isolation auto or namespaces (default on disk)")
	flags.Lookup("ephemeral").NoOptDefVal = flagvalue.Unsized
	settings.MarkFor(flags, onThisHost)
	l.flags = flags
	return flags
}

func (a *app) localLauncher() (*launcher.Local, error) {
	l := &launcher.Local{Isolation: isolation.Mode(a.local.isolation.Value), Limits: a.local.limits, Ephemeral: a.local.ephemeral.Bytes, Log: a.logger()}
	for _, dir := range a.local.readable {
		if dir == "" { // which would be the current directory
			return nil, usageError{errors.New("--readable is empty: it is a directory")}
		}
		path, err := filepath.Abs(dir)
		if err != nil {
			return nil, usageError{err}
		}
		l.Readable = append(l.Readable, path)
	}
	return l, nil
}

// localNames replaces the library's names of these flags in its messages.
var localNames = strings.NewReplacer(
	"Local.Isolation: ", "--isolation: ", "Local.Readable: ", "--readable: ",
	"Local.Limits: ", "--limits: ", "of Local.Limits", "of --limits", "Local.Ephemeral: ", "--ephemeral: ",
)

// isMissing reports whether the workdir of a new sandbox of this machine is not there yet, and will be made.
func (a *app) isMissing(workdir string) bool {
	if a.backend.Value != onThisHost || workdir == "" {
		return false
	}
	_, err := os.Stat(workdir)
	return errors.Is(err, fs.ErrNotExist)
}

// tellIsolation says what keeps a new sandbox from this machine, and one that is there already if a new one
// might be kept from it better, unless that level is asked for.
func (a *app) tellIsolation(sandbox *launcher.Sandbox) {
	is := sandbox.Isolation
	mode := cmp.Or(isolation.Mode(a.local.isolation.Value), isolation.Auto)
	asked := mode == isolation.Mode(is.Level) || mode == isolation.Off && is.Level == isolation.None
	if a.backend.Value != onThisHost || !sandbox.Created && (is.Level == isolation.Namespaces || asked) {
		return
	}
	switch {
	case is.Level == isolation.None && is.Missing != "":
		a.note("nothing isolates sandbox %s, and what runs in it can do what you can: %s", quote(sandbox.ID), is.Missing)
	case !sandbox.Created && is.Level == isolation.None:
		a.note("nothing isolates sandbox %s, which was there already: what runs in it can do what you can", quote(sandbox.ID))
	case !sandbox.Created && is.Missing == "":
		a.note("sandbox %s, which was there already, is isolated by %s%s: a new one gets the strongest level that there can be", quote(sandbox.ID), is.Level, limiterText(is.Limiter))
	case is.Level == isolation.None:
		a.note("the local backend isolates nothing: what runs in sandbox %s can do what you can", quote(sandbox.ID))
	case is.Missing != "":
		a.note("sandbox %s is isolated by %s%s; not stronger because %s", quote(sandbox.ID), is.Level, limiterText(is.Limiter), is.Missing)
	default:
		a.note("sandbox %s is isolated by %s%s", quote(sandbox.ID), is.Level, limiterText(is.Limiter))
	}
	if self, err := os.Executable(); err == nil && is.Level != isolation.None && strings.HasPrefix(self, sandbox.Workdir+"/") {
		a.note("sandbox %s can change %s, so run that only where you would run the sandbox's programs", quote(sandbox.ID), quote(self))
	}
}

// tellIsolationAtGateway says of a new sandbox that a gateway runs itself what keeps it from the gateway's machine. It is
// no matter if the agent does not tell.
func (a *app) tellIsolationAtGateway(ctx context.Context, sandbox *launcher.Sandbox) {
	if a.backend.Value != throughGateway || !sandbox.Created {
		return
	}
	info, err := sandbox.Info(ctx)
	switch is := info.Isolation; {
	case err != nil, info.PodUID != "":
	case is.Level == isolation.None:
		a.note("nothing isolates sandbox %s from the gateway's machine: what runs in it can do what the gateway can", quote(sandbox.ID))
	default:
		a.note("sandbox %s is isolated from the gateway's machine by %s%s", quote(sandbox.ID), is.Level, limiterText(is.Limiter))
	}
}

// limiterText says what of an isolated sandbox nothing limits.
func limiterText(limiter isolation.Limiter) string {
	switch limiter {
	case isolation.ControlGroup:
		return ""
	case isolation.ResourceLimits:
		return ", without a limit of its memory"
	}
	return ", without a limit of its processes and memory"
}

// tellIsolationOfServers says what keeps sandboxes from this machine that clients launch later.
func (a *app) tellIsolationOfServers() {
	if a.backend.Value != onThisHost {
		return
	}
	switch mode := cmp.Or(isolation.Mode(a.local.isolation.Value), isolation.Auto); mode {
	case isolation.Off:
		a.note("the local backend isolates nothing: what runs in its sandboxes can do what you can")
	case isolation.Auto:
		a.note("sandboxes of the local backend are isolated as well as this machine lets them be: \"orchestrator doctor\" says how well, and --isolation require refuses those that nothing isolates")
	default:
		a.note("sandboxes of the local backend are isolated by %s", mode)
	}
}

// An outsideError says that a command is on this machine, though not in its isolated sandbox.
type outsideError struct {
	error
	path string // of the command, on this machine
}

func (e *outsideError) Error() string {
	return fmt.Sprintf("%v: its sandbox cannot read %s of this machine", e.error, quote(e.path))
}

func (e *outsideError) Unwrap() error { return e.error }

// ifOutside says of a command that could not be started in a sandbox if it is outside.
func (a *app) ifOutside(sandbox *launcher.Sandbox, name string, err error) error {
	if a.backend.Value != onThisHost || sandbox.Isolation.Level == isolation.None || !isStart(err) {
		return err
	}
	known := !strings.Contains(name, "/") || filepath.IsAbs(name) // others begin in the sandbox's workdir
	if !known || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	path, lookErr := exec.LookPath(name)
	if lookErr != nil {
		return err
	}
	return &outsideError{err, path}
}

// A keptInError is about a sandbox of this machine that may be isolated from it.
type keptInError struct{ error }

func (e *keptInError) Unwrap() error { return e.error }

// keptIn marks an error of a launch whose sandbox may be isolated from this machine.
func (a *app) keptIn(err error) error {
	if a.backend.Value != onThisHost || a.local.isolation.Value == string(isolation.Off) {
		return err
	}
	return &keptInError{err}
}

// isKeptFrom returns a test for a failed checkout of a repository in a sandbox that may be isolated from
// it: it is in a directory, or else git reaches it by no proxy.
func isKeptFrom(directory bool) func(error) bool {
	return func(err error) bool {
		git, ok := errors.AsType[*launcher.GitError](err)
		if !ok || !errors.As(err, new(*keptInError)) {
			return false
		}
		isDirectory := strings.HasPrefix(git.URL, "/") || strings.HasPrefix(git.URL, "file:")
		isWeb := strings.HasPrefix(git.URL, "https://") || strings.HasPrefix(git.URL, "http://")
		return directory && isDirectory || !directory && !isDirectory && !isWeb
	}
}
