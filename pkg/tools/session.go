package tools

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/tools/secret"
)

// Options are the options of a session.
type Options struct {
	// Workdir is the directory in the sandbox where relative paths start and
	// commands run. A relative Workdir starts at the sandbox's workdir; empty
	// means the sandbox's workdir.
	Workdir string
	// Secrets are added to the environment of commands, by variable name. The
	// first call resolves them, once: later changes of a value apply to the next
	// session.
	Secrets map[string]secret.Provider
	// Redact are secrets that commands do not get, and that are removed from all that the
	// tools show, as Secrets are: the values of credentials that the way out puts into
	// requests (package egress). The first call resolves them.
	Redact map[string]secret.Provider
	// State is the initial state of the session.
	State map[string]any
	// TempDir is a directory of the sandbox. The session creates its own
	// directory there when it has to keep a long output. Empty means /tmp.
	TempDir string
	// Dialect is how a model knows the tools of this package: empty or
	// "podagent" as their Specs say; "claude-code" by the names and parameters of
	// the tools of Claude Code, which also answer in their words. [Dialects] has
	// all. Tools of hosts are the same in each.
	Dialect string
	// Checkpoint, unless nil, keeps the workdir as it is after each call that may have
	// changed it, for [Session.Rewind].
	Checkpoint *CheckpointOptions
}

// Session is a set of tools that one model uses in one sandbox. It may be used
// concurrently.
type Session struct {
	sandbox    *launcher.Sandbox
	workdir    string
	dialect    *dialect
	tools      []*bound
	byName     map[string]*bound
	err        error // what is wrong with the tools
	vault      *vault
	kept       *keptOutputs
	background *background
	steps      *steps // nil if it keeps no checkpoints

	mu    sync.Mutex
	state State
}

// New returns a session with these tools. It does not touch the sandbox. If
// something is wrong with the tools, such as two with one name, or with the dialect,
// [Session.Prepare] and every call return that error. The caller keeps the
// sandbox, and closes it.
func New(sandbox *launcher.Sandbox, opts Options, tools ...Tool) *Session {
	s := &Session{
		sandbox: sandbox, workdir: opts.Workdir, byName: map[string]*bound{},
		vault:      newVault(opts.Secrets, opts.Redact, tools),
		kept:       newKeptOutputs(sandbox, opts.TempDir),
		background: &background{},
		state:      State{}.with(opts.State),
	}
	s.steps = newSteps(s, opts.Checkpoint)
	if s.dialect, s.err = dialectOf(opts.Dialect); s.err != nil {
		return s
	}
	for _, tool := range tools {
		b, err := bind(tool, s.dialect)
		if err == nil && s.byName[b.spec.Name] != nil {
			err = fmt.Errorf("there are two tools with the name %q", b.spec.Name)
		}
		if err != nil {
			s.err = errors.Join(s.err, err)
			continue
		}
		s.tools = append(s.tools, b)
		s.byName[b.spec.Name] = b
	}
	return s
}

// Specs returns the specs of the tools, in the order given to New.
func (s *Session) Specs() []Spec {
	var specs []Spec
	for _, b := range s.tools {
		specs = append(specs, b.spec)
	}
	return specs
}

// State returns the session's current state.
func (s *Session) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// Prepare checks the tools and resolves the secrets, which the first call would do
// otherwise. It does not touch the sandbox.
func (s *Session) Prepare(ctx context.Context) error {
	if s.err != nil {
		return s.err
	}
	_, err := s.vault.open(ctx)
	return err
}

// Close removes the whole outputs that the session keeps in the sandbox. It does
// not close the sandbox. It does not end background commands either: another
// session can use their ids.
func (s *Session) Close(ctx context.Context) error { return s.kept.remove(ctx) }
