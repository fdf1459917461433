package main

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"sync"

	"github.com/podagent/podagent/pkg/egress"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi/wayout"
)

// serveCheckout has a launch that checks out a repository serve the way out meanwhile: the checkout may
// have no other. Without rules of the flags it reaches the repository's server alone. The caller calls
// end after the launch.
func (a *app) serveCheckout(spec *launcher.Spec, e *egressFlags) (end func()) {
	if spec.Git == nil {
		return func() {}
	}
	policy, asked := e.policy(), e.asked()
	if !asked {
		policy.Allow = serverRules(spec.Git.URL)
	}
	if len(policy.Allow) == 0 {
		return func() {}
	}
	var server *egress.Server
	end = func() {
		if server != nil {
			_ = server.Close() // the launch says what went wrong
		}
	}
	before(spec, func(ctx context.Context, sandbox *launcher.Sandbox) (err error) {
		end()
		if !asked && sandbox.Egress.Level == wayout.Open {
			return nil // there is no proxy to serve
		}
		said := &egressNotes{app: a, sandbox: sandbox.ID}
		server, err = e.serve(context.WithoutCancel(ctx), sandbox, egress.Options{Policy: policy, Log: said.see, Changed: said.changed})
		return err
	})
	return end
}

// serverRules allow the server of a repository that git reaches by a proxy, and nothing else; nil if it
// is none.
func serverRules(repository string) []egress.Rule {
	u, err := url.Parse(repository)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || strings.ContainsAny(u.Host, "*=,") { // of those, a rule would allow more
		return nil
	}
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	rule, err := egress.ParseRule(net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return nil // git says what is wrong with the host
	}
	return []egress.Rule{rule}
}

// before has the launch of a spec with a repository do something before the checkout.
func before(spec *launcher.Spec, do func(context.Context, *launcher.Sandbox) error) {
	git := *spec.Git
	git.Before = do
	spec.Git = &git
}

// servedLauncher is a launcher that serves the way out of the sandboxes that it launches, if the
// flags ask for that.
type servedLauncher struct {
	launcher.Launcher
	app    *app
	egress *egressFlags
	ctx    context.Context // of the servers
	cancel context.CancelFunc

	mu      sync.Mutex
	servers map[*egress.Server]struct{}
}

// served returns l as a launcher that serves. Its caller ends it when the sandboxes are closed.
func (a *app) served(l launcher.Launcher, e *egressFlags) *servedLauncher {
	s := &servedLauncher{Launcher: l, app: a, egress: e, servers: map[*egress.Server]struct{}{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Launch launches a sandbox, and serves its way out before anything runs in it, a checkout
// included.
func (s *servedLauncher) Launch(ctx context.Context, spec launcher.Spec) (*launcher.Sandbox, error) {
	if !s.egress.asked() {
		defer s.app.serveCheckout(&spec, s.egress)()
		return s.Launcher.Launch(ctx, spec)
	}
	var server *egress.Server
	end := func() {
		if server != nil {
			_ = server.Close() // the launch says what went wrong
		}
	}
	serve := func(_ context.Context, sandbox *launcher.Sandbox) (err error) {
		end()
		server, err = s.app.serveEgress(s.ctx, sandbox, s.egress, &egressNotes{app: s.app, sandbox: sandbox.ID}, false)
		return err
	}
	if spec.Git != nil {
		before(&spec, serve)
	}
	sandbox, err := s.Launcher.Launch(ctx, spec)
	if err != nil {
		end()
		return nil, err
	}
	if spec.Git == nil {
		if err := serve(ctx, sandbox); err != nil {
			return nil, errors.Join(err, sandbox.Close())
		}
	}
	s.keep(server)
	return sandbox, nil
}

// keep keeps a server until it ends with its sandbox.
func (s *servedLauncher) keep(server *egress.Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.servers[server] = struct{}{}
	go func() {
		<-server.Done()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.servers, server)
	}()
}

// end ends the servers. Their sandboxes are closed, and no errors of theirs are left to tell.
func (s *servedLauncher) end() {
	s.cancel()
	s.mu.Lock()
	var all []*egress.Server
	for server := range s.servers {
		all = append(all, server)
	}
	s.mu.Unlock()
	for _, server := range all {
		_ = server.Close()
	}
}
