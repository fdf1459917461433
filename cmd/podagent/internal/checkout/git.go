package checkout

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/google/uuid"

	"github.com/podagent/podagent/cmd/podagent/internal/proc"
)

// git runs the git program. It ignores everything in the configuration of the system, the
// user and the repository that makes git run programs or behave differently. Settings are
// arguments and files, because git up to 2.30 ignores GIT_CONFIG_COUNT.
type git struct {
	processes *proc.Manager
	scratch   string // has the global configuration
	env       []string
}

// gitError says that git failed.
type gitError struct{ msg string }

func (e *gitError) Error() string { return e.msg }

// settings override those of a repository.
var settings = []string{
	"core.hooksPath=/dev/null",
	"core.fsmonitor=false",
	"core.askPass=",
	"credential.helper=",
	"gc.auto=0",
	"maintenance.auto=false",
	"submodule.recurse=false",
	"fetch.recurseSubmodules=false",
	"merge.autoStash=false",
	"advice.detachedHead=false",
}

// passed are git's variables that the sandbox's owner may set.
var passed = []string{"GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "GIT_SSL_NO_VERIFY"}

// own are the variables that newGit sets.
var own = []string{"HOME", "XDG_CONFIG_HOME", "LC_ALL", "LANGUAGE", "SSH_ASKPASS"}

// newGit returns git, which looks for no repository in ceiling or above.
func newGit(o *Options, scratch, ceiling string) *git {
	g := &git{processes: o.Processes, scratch: scratch}
	ssh := false
	for _, v := range o.Env {
		name, _, _ := strings.Cut(v, "=")
		keep := slices.Contains(passed, name)
		ssh = ssh || keep && strings.HasPrefix(name, "GIT_SSH")
		if keep || !strings.HasPrefix(name, "GIT_") && !slices.Contains(own, name) {
			g.env = append(g.env, v)
		}
	}
	if !ssh {
		g.env = append(g.env, "GIT_SSH_COMMAND=ssh -oBatchMode=yes") // there is nobody to answer
	}
	g.env = append(
		g.env,
		// This package looks at messages, and users search for them.
		"LC_ALL=C",
		// Before git 2.32 the global configuration is found by HOME alone.
		"HOME="+scratch, "XDG_CONFIG_HOME="+scratch, "GIT_CONFIG_GLOBAL="+g.globalConfig(),
		"GIT_CONFIG_NOSYSTEM=1", "GIT_ATTR_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=",
		"GIT_ALLOW_PROTOCOL=file:git:http:https:ssh",
		"GIT_OPTIONAL_LOCKS=0",
		"GIT_LFS_SKIP_SMUDGE=1",
		"GIT_CEILING_DIRECTORIES="+ceiling,
	)
	return g
}

func (g *git) globalConfig() string { return filepath.Join(g.scratch, ".gitconfig") }

// run runs git in dir, or in the scratch directory, and returns the beginning of its
// standard output without white space at the end. If git fails, the error is a
// *gitError.
func (g *git) run(ctx context.Context, dir string, args ...string) (string, error) {
	var out head
	err := g.runTo(ctx, &out, dir, args...)
	return strings.TrimRight(string(out), " \t\r\n"), err
}

// runTo is run with a writer for the standard output. Git is a process of the sandbox
// like any other.
func (g *git) runTo(ctx context.Context, stdout io.Writer, dir string, args ...string) error {
	p, err := g.start(ctx, dir, args)
	if err != nil {
		return err
	}
	defer g.processes.Forget(p.ID())
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		end(p)
		close(ended)
	})
	messages := &ends{}
	status, err := collect(p, stdout, messages)
	if !stop() {
		<-ended // nothing of git writes any more
		return fmt.Errorf("git %s: %w", subcommand(args), ctx.Err())
	}
	if err != nil {
		end(p)
		return fmt.Errorf("git %s: %w", subcommand(args), err)
	}
	if status.Reason == proc.Exited && status.Code == 0 {
		return nil
	}
	msg := strings.ReplaceAll(strings.TrimSpace(messages.String()), "\n", "; ")
	if msg == "" {
		msg = fmt.Sprintf("git %s: %s", subcommand(args), describe(status))
	}
	return &gitError{msg}
}

// start starts git.
func (g *git) start(ctx context.Context, dir string, args []string) (*proc.Process, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	argv := []string{"git"}
	for _, s := range settings {
		argv = append(argv, "-c", s)
	}
	if dir == "" {
		dir = g.scratch
	}
	p, _, err := g.processes.Start(ctx, proc.Spec{ID: id.String(), Argv: append(argv, args...), Dir: dir, Env: g.env})
	if missing, ok := errors.AsType[*os.PathError](err); ok && missing.Op == "exec" && errors.Is(err, os.ErrNotExist) {
		return nil, ErrNoGit
	}
	return p, err
}

// collect takes the output of a process to its end. A daemon that a filter started may
// keep the output open for longer.
func collect(p *proc.Process, stdout, stderr io.Writer) (status proc.Status, err error) {
	for event, err := range p.Attach(context.Background(), proc.AttachOptions{}) {
		if err != nil || event.Status != nil {
			return *cmp.Or(event.Status, &status), err
		}
		to := stdout
		if event.Stream == proc.Stderr {
			to = stderr
		}
		to.Write(event.Data) // these writers are in memory, and take everything
	}
	return status, io.ErrUnexpectedEOF
}

// end ends git with its descendants. TERM lets git remove its temporary files. If KILL
// finds nothing, all is well.
func end(p *proc.Process) {
	_ = p.Signal(syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(context.Background(), endDelay)
	defer cancel()
	_, _ = p.Wait(ctx)
	_ = p.Signal(syscall.SIGKILL)
}

// describe says how a process failed.
func describe(s proc.Status) string {
	switch s.Reason {
	case proc.OutOfMemory:
		return "the sandbox's memory ran out"
	case proc.Signalled:
		return "it was ended by " + syscall.Signal(s.Signal).String()
	}
	return fmt.Sprintf("exit status %d", s.Code)
}

// subcommand returns the name of a git command for errors.
func subcommand(args []string) string {
	for len(args) > 2 && args[0] == "-c" {
		args = args[2:]
	}
	return args[0]
}

// ok reports whether a git command succeeds. A failure is an answer, but the end of ctx is
// an error.
func (g *git) ok(ctx context.Context, dir string, args ...string) (bool, error) {
	_, err := g.run(ctx, dir, args...)
	if errors.As(err, new(*gitError)) {
		return false, nil
	}
	return err == nil, err
}

// makeScratch makes the directory for temporary files, with the global configuration,
// and removes those that checkouts in dir have left when they were killed. The caller
// holds the lock.
func (r *run) makeScratch() (string, error) {
	tmp := variable(r.Env, "TMPDIR")
	if !filepath.IsAbs(tmp) {
		tmp = "/tmp"
	}
	prefix := fmt.Sprintf("podagent-checkout-%x-", sha256.Sum256([]byte(r.Dir)))[:30]
	if err := eachName(tmp, func(name string) error {
		if strings.HasPrefix(name, prefix) {
			_ = r.remove(filepath.Join(tmp, name)) // as far as they are ours
		}
		return nil
	}); err != nil {
		return "", fmt.Errorf("cannot use the directory for temporary files (TMPDIR may name another): %w", err)
	}
	scratch, err := os.MkdirTemp(tmp, prefix)
	if err != nil {
		return "", fmt.Errorf("cannot make a temporary directory (TMPDIR may name another place): %w", err)
	}
	return scratch, nil
}

// configure writes git's global configuration.
func (r *run) configure() error {
	// The directory of a volume belongs to root, even if another user works in it.
	config := "[safe]\n\tdirectory = *\n"
	if r.relay != nil {
		config += fmt.Sprintf("[http]\n\textraHeader = %s: %s\n", tokenHeader, r.relay.token)
	}
	return r.create(r.git.globalConfig(), config, 0o600)
}

// variable returns the value of an environment variable.
func variable(env []string, name string) (value string) {
	for _, v := range env {
		if after, ok := strings.CutPrefix(v, name+"="); ok {
			value = after
		}
	}
	return value
}
