// Package launcher makes sandboxes, finds them again by their id, and connects
// to them.
//
// A [Launcher] turns a [Spec] into a [Sandbox]: a place with files and
// processes, and the client of the agent that serves them. An id names one
// sandbox for as long as it lives: whoever launches the same id again, from
// this process or another, after a crash or a retry, gets the same sandbox
// with its files.
//
//	sandbox, err := (&launcher.Local{}).Launch(ctx, launcher.Spec{ID: "job-1"})
//	if err != nil { … }
//	defer sandbox.Close()
//	out, err := sandbox.Command(ctx, "go", "version").Output()
//
// There are two launchers: [Kubernetes], which makes a pod for each sandbox, and
// [Local], which runs the agent as a child process on this machine and isolates
// nothing. [Lazy] puts a launch off until the first call.
package launcher

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/podagent/podagent/pkg/fsops"
)

// ErrNotFound says that there is no sandbox with the id.
var ErrNotFound = errors.New("no such sandbox")

// maxID bounds a sandbox id in bytes: ids are names of jobs and sessions, and
// must fit into an annotation with room to spare.
const maxID = 4 << 10

// Launcher makes and finds sandboxes. Its methods may be called concurrently,
// also from several processes: launches of one id end in one sandbox.
type Launcher interface {
	// Launch returns the sandbox with the id of spec: the one that there is
	// (Created is false), or a new one. It returns when the agent answers.
	// The caller closes the sandbox. Invalid specs are *[SpecError], before
	// anything is made. When ctx ends, what was begun is removed.
	Launch(ctx context.Context, spec Spec) (*Sandbox, error)

	// Open connects to the sandbox with this id, whose agent is started again
	// if it has died. If there is none, the error is [ErrNotFound].
	Open(ctx context.Context, id string) (*Sandbox, error)

	// List describes the sandboxes of this launcher, sorted by id: all that
	// it could learn of, also when it returns an error.
	List(ctx context.Context) ([]Summary, error)

	// Terminate ends the sandbox's processes and removes it with its files;
	// a Workdir that its Spec named outside of it stays. It returns when the
	// sandbox is gone; that there was none is no error.
	Terminate(ctx context.Context, id string) error
}

// Spec says what sandbox is wanted.
type Spec struct {
	// ID names the sandbox: up to 4 KiB of UTF-8, without NUL. When it is
	// empty, Launch makes one up, and the sandbox is removed when it is
	// closed (see OnClose).
	ID string
	// Workdir is where relative paths start and commands run: an absolute
	// path. Empty means a directory of the sandbox's own. It counts for a new
	// sandbox only. In a pod it is mounted, and so no directory of the system or
	// the kernel, nor /home/agent or above.
	Workdir string
	// Env is the environment of commands, as NAME=VALUE, on top of the
	// launcher's own. For a sandbox that there is, it replaces the one that it
	// had, unless it is nil. In a pod it has up to 90 KiB, and is part of the
	// pod's specification, where whoever may get the pod can read it; and what an
	// adoption set lasts until the container restarts, unless who set it has the
	// sandbox open.
	Env []string
	// Protected are glob patterns of paths that the sandbox's own operations
	// (Write, Edit, Remove, Push and so on, and so the tools of a model) refuse
	// to change with all below them, by [fsops.ErrProtected]: see
	// [fsops.FS.Protect] for what they mean. Relative ones start in the
	// workdir. Commands can change these paths: see Pod.ReadOnly. For a sandbox
	// that there is, they replace what it had, as Env does, unless they are
	// nil. What is in force is said by the sandbox's Info. There are at most 1024,
	// alternatives in braces counted each, in a pod of 64 KiB in all.
	Protected []string
	// OnClose says what becomes of the sandbox when it is closed by who
	// created it.
	OnClose OnClose
	// Git, if not nil, is a repository that every Launch puts into the
	// workdir, or brings up to date there without touching local edits.
	Git *Git
	// Pod says what pod is made, and Take how it is taken. They are for
	// [Kubernetes] only.
	Pod  Pod
	Take Take
}

// OnClose is what becomes of a sandbox when it is closed.
type OnClose int

// What becomes of a sandbox when it is closed.
const (
	// CloseDefault keeps a sandbox whose id was given, and deletes another.
	CloseDefault OnClose = iota
	// CloseKeep keeps the sandbox.
	CloseKeep
	// CloseDelete terminates the sandbox, also one that was paused, if this Launch
	// created it, and neither a later Launch or Resume has made another pod of its
	// workspace, nor another exclusive owner has had it since then.
	CloseDelete
)

// A SpecError says which field of a Spec is wrong.
type SpecError struct {
	// Field is the field's name.
	Field string
	// Msg says what is wrong with it.
	Msg string
}

func (e *SpecError) Error() string {
	return fmt.Sprintf("invalid sandbox spec: %s %s", e.Field, e.Msg)
}

// Validate returns a *[SpecError] for the first field that is wrong.
func (s *Spec) Validate() error {
	switch {
	case len(s.ID) > maxID:
		return &SpecError{"ID", fmt.Sprintf("has %d bytes: at most %d are allowed", len(s.ID), maxID)}
	case !utf8.ValidString(s.ID) || strings.ContainsRune(s.ID, 0):
		return &SpecError{"ID", "is not UTF-8 without NUL"}
	case s.Workdir != "" && !strings.HasPrefix(s.Workdir, "/"):
		return &SpecError{"Workdir", fmt.Sprintf("%q is not absolute", s.Workdir)}
	case s.OnClose < CloseDefault || s.OnClose > CloseDelete:
		return &SpecError{"OnClose", "is none of the constants"}
	}
	for _, v := range s.Env {
		if i := strings.IndexByte(v, '='); i <= 0 || strings.ContainsRune(v, 0) {
			return &SpecError{"Env", fmt.Sprintf("has %q, which is not NAME=VALUE", v)}
		}
	}
	if err := fsops.CheckProtected(s.Protected); err != nil {
		return &SpecError{"Protected", "cannot be used: " + err.Error()}
	}
	if s.Git != nil {
		return s.Git.validate()
	}
	return nil
}

// deletes reports whether closing the sandbox that spec created removes it.
func (s *Spec) deletes() bool {
	return s.OnClose == CloseDelete || s.OnClose == CloseDefault && s.ID == ""
}

// State is the state of a sandbox.
type State string

// The states of a sandbox.
const (
	// Running says that the agent lets callers in; of a pod, that its container
	// runs.
	Running State = "running"
	// Stopped says that the agent is gone; Open and Launch start it again.
	Stopped State = "stopped"
	// Pending says that the pod does not run yet.
	Pending State = "pending"
	// Ended says that the pod has ended: by itself, at its deadline, or by eviction.
	Ended State = "ended"
	// Paused says that there is no pod, but that its files are kept.
	Paused State = "paused"
	// Terminating says that the pod is being deleted.
	Terminating State = "terminating"
)

// Summary describes a sandbox for a list.
type Summary struct {
	ID      string
	State   State
	Workdir string
	Created time.Time
	// Pod is the pod's name, and Heartbeat when an orchestrator last needed
	// it. Local sandboxes have neither.
	Pod       string
	Heartbeat time.Time
}

// wrap says what was being done to which sandbox when err came.
func wrap(doing, id string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s sandbox %q: %w", doing, id, err)
}
