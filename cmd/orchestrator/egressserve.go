package main

import (
	"context"
	"fmt"
	"sync"

	"github.com/podagent/podagent/pkg/egress"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi/wayout"
)

// withEgress does the work, and meanwhile serves the sandbox's way out. With a terminal it tells of
// what was denied at the end, and not in the middle of a screen.
func (a *app) withEgress(ctx context.Context, sandbox *launcher.Sandbox, e *egressFlags, terminal bool, work func() error) error {
	said := &egressNotes{app: a, sandbox: sandbox.ID, later: terminal}
	server, err := a.serveEgress(ctx, sandbox, e, said, e.strict())
	if err != nil {
		return err
	}
	defer said.end()
	over := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-over:
		case <-server.Done():
			if err := server.Close(); err != nil && ctx.Err() == nil {
				said.lost(err)
			}
		}
	})
	defer func() {
		close(over)
		watching.Wait()
		server.Close()
	}()
	return work()
}

// serveEgress serves the sandbox's way out, or stands by. If only the rules of this program will
// do, it fails while another serves.
func (a *app) serveEgress(ctx context.Context, sandbox *launcher.Sandbox, e *egressFlags, said *egressNotes, only bool) (*egress.Server, error) {
	server, err := e.serve(ctx, sandbox, egress.Options{Policy: e.policy(), Exclusive: only, Log: said.see, Changed: said.changed})
	if err == nil {
		a.sayLevel(sandbox)
	}
	return server, err
}

// serve serves the sandbox's way out, with the secrets and private ranges of the flags.
func (e *egressFlags) serve(ctx context.Context, sandbox *launcher.Sandbox, opts egress.Options) (*egress.Server, error) {
	opts.Secrets, opts.Private = e.secrets, e.private
	server, err := egress.Serve(ctx, sandbox.Client, opts)
	if err != nil {
		return nil, &servingError{fmt.Errorf("cannot serve the way out of the sandbox: %w", err)}
	}
	return server, nil
}

// sayLevel says that commands need not go by the proxy, if that is so.
func (a *app) sayLevel(sandbox *launcher.Sandbox) {
	if !sandbox.Egress.Level.AtLeast(wayout.Landlock) {
		a.note("commands of sandbox %s, --main among them, can leave it by other ways than its proxy: the level is advisory%s", quote(sandbox.ID), because(sandbox.Egress.Missing))
	}
}

// because returns a reason as the end of a sentence.
func because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}
