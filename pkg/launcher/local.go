package launcher

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	corev1 "k8s.io/api/core/v1"

	"github.com/podagent/podagent/pkg/podapi/isolation"
)

// Local runs each sandbox's agent as a process on this Linux machine, isolated from the
// rest of it at the strongest level that there can be: [Sandbox].Isolation says which.
// Without any, or if Isolation is [isolation.Off], commands can do what the caller's user can.
//
// A sandbox is a directory below StateDir, which only its owner can enter. Its agent
// serves its own user only, and an agent of another user is not called. Of the
// environment, commands get PATH, HOME and the locale; TERM, PAGER and GIT_PAGER are set
// for plain text. The zero value is ready to use.
type Local struct {
	// StateDir holds the sandboxes. Empty means podagent/local in $XDG_STATE_HOME, or in ~/.local/state.
	StateDir string
	// Agent is the path of podagent. Empty: $PODAGENT_BIN, or podagent beside this program or in PATH.
	Agent     string
	Isolation isolation.Mode // what keeps new sandboxes from this machine, or [ErrIsolation]; empty: [isolation.Auto]
	// Readable are absolute paths that isolated sandboxes can read, besides the system's. Neither they nor a workdir of one can be all that
	// is the user's, nor what would lift the isolation, such as StateDir: docs/isolation.md lists those.
	Readable []string
	// Limits are those of each new isolated sandbox as a whole: cpu, memory and [ResourceProcesses]; 0 is no limit. By
	// default they are [DefaultLocalProcesses] and three quarters of the machine's memory, as far as that can be. A
	// named limit that cannot be kept is [ErrIsolation]. Sandbox.Isolation.Limiter says what keeps them.
	Limits corev1.ResourceList
	// Ephemeral, if not 0, has the workdir, home and temporary files of each new sandbox in memory, in at most so many bytes. They go with the
	// agent: then Open and Launch fail with [ErrEnded], until somebody terminates the sandbox. This takes namespaces, or is [ErrIsolation].
	Ephemeral int64
	Log       *slog.Logger // gets what the launcher does; nil discards it
}

var _ Launcher = (*Local)(nil)

// Launch implements Launcher.
func (l *Local) Launch(ctx context.Context, spec Spec) (*Sandbox, error) {
	if err := errors.Join(spec.Validate(), spec.checkNoPod(), l.checkIsolation(), l.checkLimits(), l.checkEphemeral(&spec), l.checkEgress(&spec)); err != nil {
		return nil, err
	}
	deletes := spec.deletes()
	if spec.ID == "" {
		spec.ID = newID()
	}
	sandbox, err := l.launch(ctx, spec)
	if err == nil && spec.Git != nil {
		err = l.checkout(ctx, sandbox, spec.Git)
	}
	if err != nil {
		return nil, wrap("launching", spec.ID, err)
	}
	sandbox.EndBy(l, deletes && sandbox.Created)
	return sandbox, nil
}

// checkout puts the source into the sandbox. If that fails, a sandbox created for
// it is removed.
func (l *Local) checkout(ctx context.Context, sandbox *Sandbox, git *Git) error {
	err := git.checkout(ctx, sandbox, l.log())
	if err == nil {
		return nil
	}
	err = errors.Join(err, sandbox.Close())
	if sandbox.Created {
		err = errors.Join(err, l.terminate(context.WithoutCancel(ctx), sandbox.ID))
	}
	return err
}

// Open implements Launcher.
func (l *Local) Open(ctx context.Context, id string) (*Sandbox, error) {
	sandbox, err := l.open(ctx, id)
	if err != nil {
		return nil, wrap("opening", id, err)
	}
	return sandbox.endsBy(l), nil
}

// List implements Launcher.
func (l *Local) List(ctx context.Context) ([]Summary, error) { return l.list(ctx) }

// Find implements Launcher.
func (l *Local) Find(ctx context.Context, id string) (Summary, error) {
	s, err := l.find(ctx, id)
	return s, wrap("finding", id, err)
}

// Terminate implements Launcher. The agent gets TERM, ends its processes, and
// is killed if it takes too long.
func (l *Local) Terminate(ctx context.Context, id string) error {
	return wrap("terminating", id, l.terminate(ctx, id))
}

func (l *Local) log() *slog.Logger {
	if l.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return l.Log
}

// Dir returns the directory that holds the sandboxes.
func (l *Local) Dir() (string, error) {
	if l.StateDir != "" {
		return filepath.Abs(l.StateDir)
	}
	// The XDG base directory specification says to ignore relative paths.
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "podagent", "local"), nil
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, ".local", "state", "podagent", "local"), err
}

// findAgent returns the path of the podagent binary: the one beside this program, or else the first in PATH. One that is
// there and cannot be executed is an error. To go on to the next one would let whoever changed its mode choose.
func (l *Local) findAgent() (string, error) {
	for _, path := range []string{l.Agent, os.Getenv("PODAGENT_BIN")} {
		if path != "" {
			return filepath.Abs(path)
		}
	}
	var dirs []string
	if self, err := os.Executable(); err == nil {
		dirs = append(dirs, filepath.Dir(self))
	}
	for _, dir := range append(dirs, filepath.SplitList(os.Getenv("PATH"))...) {
		path := filepath.Join(dir, agentName)
		if info, err := os.Stat(path); !filepath.IsAbs(dir) || err == nil && info.IsDir() || isNotThere(err) {
			continue
		}
		if _, err := exec.LookPath(path); err != nil {
			return "", fmt.Errorf("%w: %w", ErrNoAgent, err)
		}
		return path, nil
	}
	return "", ErrNoAgent
}

// agentName is the name of the program.
const agentName = "podagent"

// isNotThere reports whether an error says that a path leads to nothing.
func isNotThere(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}
