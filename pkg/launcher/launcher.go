// Package launcher makes sandboxes, finds them by their id, and connects to them.
//
// A [Launcher] turns a [Spec] into a [Sandbox]: a place with files and processes,
// and the client of the agent that serves them. Whoever launches the same id again,
// from any process, after a crash or retry, gets the same sandbox and files.
//
//	s, err := (&launcher.Local{}).Launch(ctx, launcher.Spec{ID: "job-1"})
//	if err != nil { … }
//	defer s.Terminate(context.WithoutCancel(ctx))
//	out, err := s.Command(ctx, "go", "version").Output()
//
// [Kubernetes] makes a pod for each sandbox. [Local] runs the agent as a process on
// this machine, isolated from the rest of it. [Lazy] puts a launch off until the first call.
package launcher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/podapi/isolation"
	"github.com/podagent/podagent/pkg/podapi/wayout"
)

// Errors of launchers.
var (
	ErrNotFound  = errors.New("no such sandbox")
	ErrPaused    = errors.New("the sandbox is paused") // it has no pod, but its files are kept: see [Kubernetes.Resume]
	ErrNoAgent   = errors.New("cannot find the podagent binary: set PODAGENT_BIN, or put podagent beside this program or into PATH")
	ErrIsolation = errors.New("the sandbox cannot be isolated as required")                  // see Local.Isolation
	ErrEgress    = errors.New("commands can leave the sandbox by other ways than its proxy") // and must not: see Spec.Egress
)

// maxID bounds a sandbox id in bytes: ids are names of jobs and sessions, and
// must fit into an annotation with room to spare.
const maxID = 4 << 10

// Launcher makes and finds sandboxes. Its methods may be called concurrently, also
// from several processes: launches of one id end in one sandbox.
type Launcher interface {
	// Launch returns the sandbox with the id of spec, which it makes if there is none, once the agent
	// answers. The caller closes it. A wrong spec is a *[SpecError], before anything is made. If Launch
	// fails, also because ctx ended, it removes what it made, unless another caller has adopted that.
	Launch(ctx context.Context, spec Spec) (*Sandbox, error)

	// Open connects to a sandbox, or returns [ErrNotFound]. A [Local] one's agent is started again if it has died.
	Open(ctx context.Context, id string) (*Sandbox, error)

	// List describes the sandboxes of this launcher, sorted by id; with an error, those that it found.
	List(ctx context.Context) ([]Summary, error)

	// Find describes one sandbox in any state, without a list. If there is none: [ErrNotFound].
	Find(ctx context.Context, id string) (Summary, error)

	// Terminate ends the sandbox's processes and removes it with its files, but for a Workdir outside of
	// it that its Spec named. It returns when the sandbox is gone. If there is none, it does nothing.
	Terminate(ctx context.Context, id string) error
}

// Spec says what sandbox is wanted.
type Spec struct {
	// ID names the sandbox: up to 4 KiB of UTF-8, without NUL. If it is empty, Launch makes one up: see OnClose.
	ID string
	// Workdir is where relative paths start and commands run in a new sandbox: absolute, or empty for one of its
	// own. In a pod it is a mount: no directory of the system or the kernel, nor /home/agent or above.
	Workdir string
	// Env is the environment of commands, as NAME=VALUE, in addition to the launcher's. Unless it is
	// nil, it replaces that of a sandbox that exists; in a pod this outlasts the container only while
	// this sandbox is open. In a pod it has up to 90 KiB, and whoever may get the pod can read it.
	Env []string
	// Protected are glob patterns of paths, relative to the workdir, that the sandbox's own operations, and so the
	// tools of a model, refuse to change with all below them ([fsops.ErrProtected]; see [fsops.FS.Protect]).
	// Commands can change them: see Pod.ReadOnly. Like Env, they replace those of a sandbox that exists; its Info
	// has those in force. There are up to 1024, counting each alternative in braces, in a pod 64 KiB in all.
	Protected []string
	// Labels are the host's own, for lists ([Summary]): up to 64 in Kubernetes' syntax, which nothing in
	// a cluster selects by. They are those of the Launch that makes the sandbox, for all its life.
	Labels  map[string]string
	OnClose OnClose // what Close does to a sandbox that this Launch created
	// Git, unless nil, is a repository that every Launch puts into the workdir, or updates there, but for local edits.
	Git *Git
	// Egress says how commands leave it by the network. With a Mode they have a proxy on the loopback, whose far end
	// (package egress) decides. A level that there cannot be is [ErrEgress]. [Local] has no [wayout.Network].
	Egress wayout.Config
	Pod    Pod  // what pod is made, by [Kubernetes] only
	Take   Take // how it is taken

	isNew bool // whether this launch made the ID up, so that there cannot be anything of it
}

// OnClose is what Close does to a sandbox that its Launch created.
type OnClose string

const (
	CloseDefault OnClose = ""     // keep a sandbox whose id was given, and delete another
	CloseKeep    OnClose = "keep" // keep it
	// CloseDelete terminates it, also while it is paused or others use it, but no pod that a later Launch or
	// Resume made, nor, if this launch was exclusive, one that has had another exclusive owner since.
	CloseDelete OnClose = "delete"
)

// SpecError says what is wrong with a field of a Spec, in the words of Msg.
type SpecError struct{ Field, Msg string }

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
	case !slices.Contains([]OnClose{CloseDefault, CloseKeep, CloseDelete}, s.OnClose):
		return &SpecError{"OnClose", "must be CloseDefault, CloseKeep or CloseDelete"}
	}
	for _, v := range s.Env {
		if i := strings.IndexByte(v, '='); i <= 0 || strings.ContainsRune(v, 0) {
			return &SpecError{"Env", fmt.Sprintf("has %q, which is not NAME=VALUE", v)}
		}
	}
	if err := fsops.CheckProtected(s.Protected); err != nil {
		return &SpecError{"Protected", "cannot be used: " + err.Error()}
	}
	if err := checkLabels(s.Labels); err != nil {
		return err
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

const (
	Running     State = "running"     // the agent lets callers in; of a pod, its container runs
	Stopped     State = "stopped"     // the agent is gone; Open and Launch start it again
	Pending     State = "pending"     // the pod does not run yet
	Ended       State = "ended"       // the pod has ended: by itself, at its deadline, by eviction; or an ephemeral sandbox has
	Paused      State = "paused"      // there is no pod, but the files are kept
	Terminating State = "terminating" // the pod is being deleted
)

// Summary describes a sandbox for a list.
type Summary struct {
	ID        string
	State     State
	Workdir   string
	CreatedAt time.Time
	Pod, Pool string              // the pod's name, and the pool that it was taken out of
	Heartbeat time.Time           // when an orchestrator last needed the pod
	Labels    map[string]string   // see Spec
	Expires   time.Time           // when it ends itself; zero if it need not, or was paused by Pause
	Resources corev1.ResourceList // cpu, memory (limits, or else requests), its workspace's storage, which Find may not know
	Lifetime  time.Duration       // how long its pod lives, or, paused, its next one
	Isolation isolation.Mode      // what keeps a sandbox of [Local] from its machine: a level, or [isolation.Off]; empty for others
}

// wrap says what was being done to which sandbox when err came.
func wrap(doing, id string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s sandbox %q: %w", doing, id, err)
}
