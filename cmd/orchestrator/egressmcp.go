package main

import (
	"context"
	"errors"
	"sync"

	"github.com/podagent/podagent/pkg/egress"
	"github.com/podagent/podagent/pkg/launcher"
)

// servedLauncher is a launcher that serves the way out of the sandboxes that it launches, if the
// flags ask for that.
type servedLauncher struct {
	launcher.Launcher
	app    *app
	egress *egressFlags
	ctx    context.Context // of the servers
	cancel context.CancelFunc

	mu      sync.Mutex
	servers []*egress.Server
}

// served returns l as a launcher that serves. Its caller ends it when the sandboxes are closed.
func (a *app) served(l launcher.Launcher, e *egressFlags) *servedLauncher {
	s := &servedLauncher{Launcher: l, app: a, egress: e}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Launch launches a sandbox, and serves its way out before anything runs in it.
func (s *servedLauncher) Launch(ctx context.Context, spec launcher.Spec) (*launcher.Sandbox, error) {
	sandbox, err := s.Launcher.Launch(ctx, spec)
	if err != nil || !s.egress.asked() {
		return sandbox, err
	}
	server, err := s.app.serveEgress(s.ctx, sandbox, s.egress, &egressNotes{app: s.app, sandbox: sandbox.ID}, false)
	if err != nil {
		return nil, errors.Join(err, sandbox.Close())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.servers = append(s.servers, server)
	return sandbox, nil
}

// end ends the servers. Their sandboxes are closed, and no errors of theirs are left to tell.
func (s *servedLauncher) end() {
	s.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, server := range s.servers {
		_ = server.Close()
	}
}
