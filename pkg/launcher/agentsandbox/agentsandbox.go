// Package agentsandbox makes sandboxes through agent-sandbox
// (https://github.com/kubernetes-sigs/agent-sandbox), by its resources of v1beta1.
//
// Its controller creates the pods, and deletes them when their time is over. podagent's agent runs
// in them, with the orchestrator's identity, connection and configuration. A sandbox is a Sandbox
// object of its own; or, if the Spec's Take.Pool names a SandboxWarmPool, a SandboxClaim that
// gets a pod which waits. The claim sets nothing that would keep it from such a pod: the agent gets
// the environment and protected paths once the pod is known.
//
// It needs the permissions of deploy/agent-sandbox-rbac.yaml.
package agentsandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/podagent/podagent/pkg/launcher"
)

// Errors of agent-sandbox. The others are those of package launcher.
var (
	ErrNotInstalled = errors.New("agent-sandbox is not installed in the cluster")
	ErrNoController = errors.New("no controller of agent-sandbox acts in the cluster")
	ErrNoWarmPool   = errors.New("there is no such SandboxWarmPool")
	ErrNoTemplate   = errors.New("the SandboxTemplate of the warm pool is not there")
)

// Launcher makes sandboxes through agent-sandbox. Its fields must not change after a call.
type Launcher struct {
	// Cluster says which cluster, namespace and identity, and the way to agents. Nil is a
	// zero one.
	Cluster *launcher.Kubernetes

	mu       sync.Mutex
	resolved *cluster
}

var _ launcher.Launcher = (*Launcher)(nil)

// Launch implements launcher.Launcher. With Take.Pool, the pool's template decides what pod it is.
// If Pod demands something else, but for labels, annotations and times, the error is
// launcher.ErrDrift. A Spec with Volumes or Workspace.Keep, or without a pool, gets a Sandbox of its
// own.
//
// The controller removes the sandbox with its files at the end of Pod.Lifetime, or else of
// Pod.ActiveDeadline: see [Launcher.Extend].
func (l *Launcher) Launch(ctx context.Context, spec launcher.Spec) (*launcher.Sandbox, error) {
	if err := check(&spec); err != nil {
		return nil, err
	}
	deletes := spec.OnClose == launcher.CloseDelete || spec.OnClose == launcher.CloseDefault && spec.ID == ""
	isNew := spec.ID == ""
	if isNew {
		spec.ID = "sandbox-" + strings.ToLower(rand.Text()[:12])
	}
	c, err := l.cluster(ctx)
	if err != nil {
		return nil, wrap("launching", spec.ID, err)
	}
	s, err := c.launch(ctx, spec, isNew, deletes)
	return s, wrap("launching", spec.ID, err)
}

// check checks what a Spec asks of agent-sandbox. The rest is checked by what the cluster's
// launcher makes of it.
func check(spec *launcher.Spec) error {
	if err := spec.Validate(); err != nil {
		return err
	}
	if len(spec.Pod.Main) > 0 {
		return &launcher.SpecError{Field: "Pod.Main", Msg: "is set, but nothing runs in a pod before it is a sandbox's"}
	}
	if spec.Pod.Workspace.Keep && spec.ID == "" {
		return &launcher.SpecError{Field: "Pod.Workspace.Keep", Msg: "needs an ID, by which the files are found again"}
	}
	for name := range spec.Pod.Labels {
		if isReserved(name) {
			return &launcher.SpecError{Field: "Pod.Labels", Msg: fmt.Sprintf("has %q, which is agent-sandbox's", name)}
		}
	}
	return nil
}

// isReserved reports whether a label is agent-sandbox's.
func isReserved(name string) bool {
	domain, _, _ := strings.Cut(name, "/")
	return domain == sandboxGroup.Group || domain == extensions.Group
}

// Open implements launcher.Launcher. It also opens a SandboxClaim, or a Sandbox that belongs to
// nothing else, by its name, if another client has made it from a template of
// [Launcher.Template]. A paused sandbox is launcher.ErrPaused.
func (l *Launcher) Open(ctx context.Context, id string) (*launcher.Sandbox, error) {
	c, err := l.cluster(ctx)
	if err != nil {
		return nil, wrap("opening", id, err)
	}
	s, err := c.open(ctx, id)
	return s, wrap("opening", id, err)
}

// OpenForeign opens a Sandbox by its own name, and its UID unless that is empty, which another client has
// made, by a claim or without one, from a template of [Launcher.Template], if mine says so of the labels of
// its pods. Otherwise it is launcher.ErrNotFound, like one that is not there. A suspended one is
// launcher.ErrPaused.
func (l *Launcher) OpenForeign(ctx context.Context, name, uid string, mine func(labels map[string]string) bool) (*launcher.Sandbox, error) {
	c, err := l.cluster(ctx)
	if err != nil {
		return nil, wrap("opening", name, err)
	}
	s, err := c.openForeign(ctx, name, uid, mine)
	return s, wrap("opening", name, err)
}

// List implements launcher.Launcher. It lists no objects of other clients.
func (l *Launcher) List(ctx context.Context) ([]launcher.Summary, error) {
	c, err := l.cluster(ctx)
	if err == nil {
		var list []launcher.Summary
		if list, err = c.list(ctx); err == nil {
			return list, nil
		}
		return list, fmt.Errorf("listing sandboxes: %w", err)
	}
	return nil, fmt.Errorf("listing sandboxes: %w", err)
}

// Find implements launcher.Launcher. An object of another client is launcher.ErrNotFound, unless it
// has the name that is made from the id: then it is launcher.ErrNotOurs.
func (l *Launcher) Find(ctx context.Context, id string) (launcher.Summary, error) {
	c, err := l.cluster(ctx)
	var s launcher.Summary
	if err == nil {
		s, err = c.findOne(ctx, id)
	}
	return s, wrap("finding", id, err)
}

// Terminate implements launcher.Launcher. An object that another client has made is
// launcher.ErrNotOurs.
func (l *Launcher) Terminate(ctx context.Context, id string) error {
	c, err := l.cluster(ctx)
	if err == nil {
		err = c.terminate(ctx, id)
	}
	return wrap("terminating", id, err)
}

// wrap says what was being done to which sandbox when err came.
func wrap(doing, id string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s sandbox %q: %w", doing, id, err)
}
