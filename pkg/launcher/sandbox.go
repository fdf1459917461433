package launcher

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/pkg/podapi/isolation"
	"github.com/podagent/podagent/pkg/podapi/wayout"
)

// Sandbox is a place for untrusted work, with the client of its agent: files, search,
// commands, and connections to servers.
type Sandbox struct {
	*podapi.Client
	ID      string // names the sandbox
	Workdir string // where relative paths start, as a path in the sandbox
	// Egress says how commands could leave the sandbox when it was opened. Behind a gateway only Info has it.
	Egress    wayout.Info
	Isolation isolation.Info // what keeps a sandbox of [Local] from its machine
	// Created says that this Launch made the sandbox, not just a pod for kept files.
	Created bool
	Drift   []string // how the existing pod, and the claim of its workspace, differ from the Spec
	Start   Start    // where a new pod comes from, if the Spec names a pool

	// pod is the sandbox's pod; nil if it has none.
	pod *openPod
	// lease is held by an exclusive owner; otherwise it is nil.
	lease *lease
	// terminate ends the connection, and the sandbox by its launcher.
	terminate func(ctx context.Context) error

	disconnected sync.Once

	closing sync.Mutex // guards the fields below
	closed  bool
	removed bool           // the sandbox is, by Terminate or undo
	undo    func() error   // removes the sandbox, if Close does so
	atClose []func() error // what Close does then, in reverse order
}

// Start says where a new pod comes from.
type Start struct {
	Warm bool   // out of the pool
	Cold string // why a new pod was made instead, such as "the pool has no pods"
}

// Close ends the connection. The sandbox and its processes stay, unless OnClose says
// otherwise. A second call does nothing.
func (s *Sandbox) Close() error {
	s.closing.Lock()
	defer s.closing.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	err := s.disconnect()
	if s.undo != nil {
		undone := s.undo()
		s.removed = undone == nil
		err = errors.Join(undone, err)
	}
	for _, do := range slices.Backward(s.atClose) {
		err = errors.Join(do(), err)
	}
	return err
}

// Terminate closes the connection and removes the sandbox for everybody, as
// [Launcher.Terminate] does. It may come after Close. A [Lazy] sandbox that was not
// launched stays so. An exclusive owner that has lost it gets [ErrOwned].
func (s *Sandbox) Terminate(ctx context.Context) error {
	if s.terminate == nil { // a launcher of another package made it
		return errors.Join(errors.ErrUnsupported, s.Close())
	}
	err := s.terminate(ctx)
	if err == nil {
		s.keep()
	}
	return errors.Join(err, s.Close())
}

// disconnect closes the connection, once.
func (s *Sandbox) disconnect() (err error) {
	s.disconnected.Do(func() { err = s.Client.Close() })
	return err
}

// keep makes Close remove nothing, after the sandbox was removed: another launch may have created
// it anew.
func (s *Sandbox) keep() {
	s.closing.Lock()
	defer s.closing.Unlock()
	s.undo, s.removed = nil, true
}

// EndBy makes Terminate, and Close if it deletes, end a sandbox that l made.
func (s *Sandbox) EndBy(l Launcher, deletes bool) {
	s.endsBy(l)
	if deletes {
		s.undo = func() error {
			ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
			defer cancel()
			return l.Terminate(ctx, s.ID)
		}
	}
}

// endsBy makes Terminate end the sandbox by its launcher.
func (s *Sandbox) endsBy(l Launcher) *Sandbox {
	s.endBy(func(ctx context.Context) error { return l.Terminate(ctx, s.ID) })
	return s
}

// endBy makes Terminate end the sandbox so.
func (s *Sandbox) endBy(end func(ctx context.Context) error) {
	s.terminate = func(ctx context.Context) error {
		if s.lease != nil && errors.Is(s.pod.isDead(), ErrOwned) {
			return errors.Join(s.pod.isDead(), s.disconnect()) // the sandbox has another owner now
		}
		return errors.Join(s.disconnect(), end(ctx))
	}
}

// closes adds a step to Close. Each step has cleanupTimeout.
func (s *Sandbox) closes(do func(ctx context.Context) error) {
	s.atClose = append(s.atClose, func() error { return s.cleanUp(do) })
}

// cleanUp runs a step of Close, within cleanupTimeout.
func (s *Sandbox) cleanUp(do func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(s.calm(), cleanupTimeout)
	defer cancel()
	return do(ctx)
}

// calm returns a context that does not end.
func (s *Sandbox) calm() context.Context { return s.pod.logged(context.Background()) }
