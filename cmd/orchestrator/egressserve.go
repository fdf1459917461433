package main

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"

	"github.com/podagent/podagent/pkg/egress/farend"
	"github.com/podagent/podagent/pkg/podapi/wayout"

	"github.com/podagent/podagent/cmd/internal/render"
	"github.com/podagent/podagent/pkg/egress"
	"github.com/podagent/podagent/pkg/launcher"
)

// withEgress does the work, and meanwhile serves the sandbox's way out. With a terminal it tells of
// what was denied at the end, and not in the middle of a screen.
func (a *app) withEgress(ctx context.Context, sandbox *launcher.Sandbox, e *egressFlags, terminal bool, work func() error) error {
	said := &denials{app: a, sandbox: sandbox.ID, later: terminal}
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
			said.lost(server.Close())
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
func (a *app) serveEgress(ctx context.Context, sandbox *launcher.Sandbox, e *egressFlags, said *denials, only bool) (*egress.Server, error) {
	server, err := e.serve(ctx, sandbox, egress.Options{Policy: e.policy(), Exclusive: only, Log: said.see, Changed: said.changed})
	if err == nil {
		a.sayLevel(sandbox)
	}
	return server, err
}

// serve serves the sandbox's way out, with the secrets of the flags.
func (e *egressFlags) serve(ctx context.Context, sandbox *launcher.Sandbox, opts egress.Options) (*egress.Server, error) {
	opts.Secrets = e.secrets
	server, err := egress.Serve(ctx, sandbox.Client, opts)
	if err != nil {
		return nil, fmt.Errorf("cannot serve the way out of the sandbox: %w", err)
	}
	return server, nil
}

// sayLevel says that commands need not go by the proxy, if that is so.
func (a *app) sayLevel(sandbox *launcher.Sandbox) {
	if !sandbox.Egress.Level.AtLeast(wayout.Landlock) {
		a.note("commands of sandbox %s can leave it by other ways than its proxy: the level is advisory%s", quote(sandbox.ID), because(sandbox.Egress.Missing))
	}
}

// because returns a reason as the end of a sentence.
func because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

// denials tells of the hosts that were denied, each once.
type denials struct {
	app     *app
	sandbox string
	later   bool // tell at the end

	mu      sync.Mutex
	known   map[string]bool
	waiting []string
	away    bool // another serves
}

// see is told of all decisions.
func (d *denials) see(decision egress.Decision) {
	if d.app.json() || decision.Verdict != egress.Denied {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	host := hostOf(decision)
	if d.known[host] || len(d.known) > maxDenied {
		return
	}
	if d.known == nil {
		d.known = map[string]bool{}
	}
	d.known[host] = true
	if len(d.known) > maxDenied {
		d.say("commands were denied more hosts")
		return
	}
	text := fmt.Sprintf("commands were denied %s: %s", host, decision.Reason)
	if decision.Allow != "" {
		text += ": --allow-host " + quote(decision.Allow) + " allows it"
	}
	d.say(text)
}

// say tells, now or later. The caller holds mu.
func (d *denials) say(text string) {
	if d.later {
		d.waiting = append(d.waiting, text)
		return
	}
	d.app.note("%s", oneLine(text))
}

// changed tells when another far end serves in place of this program, and when it does so again.
func (d *denials) changed(s farend.State) {
	d.mu.Lock()
	defer d.mu.Unlock()
	away := !s.Serving
	switch {
	case s.Err != nil:
		return
	case away && !d.away:
		d.say(fmt.Sprintf("sandbox %s: %v", quote(d.sandbox), farend.ErrServed))
	case !away && d.away:
		d.say(fmt.Sprintf("sandbox %s: this program serves its way out now", quote(d.sandbox)))
	}
	d.away = away
}

// lost tells that this program serves no more.
func (d *denials) lost(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.say(fmt.Sprintf("sandbox %s: this program serves its way out no more: %v", quote(d.sandbox), err))
}

// end tells what had to wait.
func (d *denials) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, text := range d.waiting {
		d.app.note("%s", oneLine(text))
	}
	d.waiting, d.later = nil, false
}

// hostOf returns what was asked for, as it may be printed anywhere.
func hostOf(d egress.Decision) string {
	host := render.Terminal(true).Name(d.Host)
	if d.Port == 0 {
		return host
	}
	return net.JoinHostPort(host, strconv.Itoa(d.Port))
}
