package tools

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/tools/secret"
)

// Options say how a session is.
type Options struct {
	// Workdir is where relative paths start and commands run, as a path in the
	// sandbox; a relative one starts at the sandbox's own workdir, which is what
	// empty means.
	Workdir string
	// Secrets are what commands have in their environment, by the names of
	// the variables. They are resolved once, by the first call: a value that is
	// changed where it is kept is that of the next session.
	Secrets map[string]secret.Provider
	// State is what the session's state begins with.
	State map[string]any
	// TempDir is the directory of the sandbox in which the session makes one of
	// its own when it has to keep a long output; empty means /tmp.
	TempDir string
}

// Session is the tools that one model uses in one sandbox. It may be used
// concurrently.
type Session struct {
	sandbox    *launcher.Sandbox
	workdir    string
	tools      []*bound
	byName     map[string]*bound
	err        error // what is wrong with the tools
	vault      *vault
	kept       *keptOutputs
	background *background

	mu    sync.Mutex
	state State
}

// New returns a session of these tools. It calls nothing; what is wrong with
// the tools, as two of one name, is the error of [Session.Prepare] and of every
// call. The sandbox stays the caller's, who closes it.
func New(sandbox *launcher.Sandbox, opts Options, tools ...Tool) *Session {
	s := &Session{
		sandbox: sandbox, workdir: opts.Workdir, byName: map[string]*bound{},
		vault:      newVault(opts.Secrets, tools),
		kept:       newKeptOutputs(sandbox, opts.TempDir),
		background: &background{},
		state:      State{}.with(opts.State),
	}
	for _, tool := range tools {
		b, err := bind(tool)
		if err == nil && s.byName[b.spec.Name] != nil {
			err = fmt.Errorf("there are two tools of the name %q", b.spec.Name)
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

// Specs describe the tools, in the order in which they were given.
func (s *Session) Specs() []Spec {
	var specs []Spec
	for _, b := range s.tools {
		specs = append(specs, b.spec)
	}
	return specs
}

// State returns the session's state as it is now.
func (s *Session) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// Prepare does what the first call would do before it: it checks the tools, and
// resolves the secrets. It does not touch the sandbox.
func (s *Session) Prepare(ctx context.Context) error {
	if s.err != nil {
		return s.err
	}
	_, err := s.vault.open(ctx)
	return err
}

// Close removes what the session keeps in the sandbox: the whole outputs of
// which results told a part. It closes neither the sandbox, nor does it end
// background commands, which another session knows by their ids.
func (s *Session) Close(ctx context.Context) error { return s.kept.remove(ctx) }
