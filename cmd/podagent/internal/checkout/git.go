package checkout

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// git runs the git program. It ignores everything in the configuration of the system, the
// user and the repository that makes git run programs or behave differently. Settings are
// arguments and files, because git up to 2.30 ignores GIT_CONFIG_COUNT.
type git struct {
	program string
	scratch string // has the global configuration
	env     []string
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

// passed are the variables of git's that the sandbox's owner may set for it.
var passed = []string{"GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "GIT_SSL_NO_VERIFY"}

// own are the variables that newGit sets.
var own = []string{"HOME", "XDG_CONFIG_HOME", "LC_ALL", "LANGUAGE", "SSH_ASKPASS"}

// newGit returns git, which looks for no repository in ceiling or above.
func newGit(program, scratch, ceiling string) *git {
	g := &git{program: program, scratch: scratch}
	ssh := false
	for _, v := range os.Environ() {
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

// run runs git in dir, or in the scratch directory, and returns its standard output
// without white space at the end. If git fails, the error is a *gitError.
func (g *git) run(ctx context.Context, dir string, args ...string) (string, error) {
	var all []string
	for _, s := range settings {
		all = append(all, "-c", s)
	}
	cmd := exec.CommandContext(ctx, g.program, append(all, args...)...)
	cmd.Dir, cmd.Env = dir, g.env
	if dir == "" {
		cmd.Dir = g.scratch
	}
	stdout, stderr := &bytes.Buffer{}, &tail{limit: maxMessage}
	cmd.Stdout, cmd.Stderr = &limited{Buffer: stdout, limit: maxOutput}, stderr
	// TERM lets git remove its temporary files.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = endDelay
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("git %s: %w", subcommand(args), ctx.Err())
	// A daemon that a filter started may keep the output open.
	case err == nil || errors.Is(err, exec.ErrWaitDelay):
		return strings.TrimRight(stdout.String(), " \t\r\n"), nil
	}
	msg := strings.ReplaceAll(strings.TrimSpace(stderr.String()), "\n", "; ")
	if msg == "" {
		msg = fmt.Sprintf("git %s: %v", subcommand(args), err)
	}
	return "", &gitError{msg}
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

// makeScratch makes the directory for temporary files, and removes those that killed
// checkouts in dir have left. The caller holds the lock.
func makeScratch(dir string) (string, error) {
	prefix := fmt.Sprintf("podagent-checkout-%x-", sha256.Sum256([]byte(dir)))[:30]
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*"))
	for _, l := range left {
		os.RemoveAll(l) // as far as they are ours
	}
	scratch, err := os.MkdirTemp("", prefix)
	if err != nil {
		return "", fmt.Errorf("cannot make a temporary directory (TMPDIR may name another place): %w", err)
	}
	// The directory of a volume belongs to root, whoever works in it.
	config := "[safe]\n\tdirectory = *\n"
	return scratch, os.WriteFile(filepath.Join(scratch, ".gitconfig"), []byte(config), 0o600)
}

// limited is a buffer that refuses more bytes than its limit.
type limited struct {
	*bytes.Buffer
	limit int
}

func (l *limited) Write(p []byte) (int, error) {
	if l.Len()+len(p) > l.limit {
		return 0, fmt.Errorf("git printed more than %d bytes", l.limit)
	}
	return l.Buffer.Write(p)
}

// tail keeps the last bytes that are written to it.
type tail struct {
	limit int
	data  []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.data = append(t.data, p...)
	t.data = t.data[max(0, len(t.data)-t.limit):]
	return len(p), nil
}

func (t *tail) String() string { return string(t.data) }
