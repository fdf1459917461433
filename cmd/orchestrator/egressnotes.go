package main

import (
	"fmt"
	"net"
	"strconv"
	"sync"

	"github.com/podagent/podagent/cmd/internal/render"
	"github.com/podagent/podagent/pkg/egress"
	"github.com/podagent/podagent/pkg/egress/farend"
)

// egressNotes tells, on standard error, what serving the way out of a sandbox meets while something
// else is the program's work: each host that was denied once, each place of a placeholder where it
// does no good, and who serves. What it tells is bounded, since the sandbox has a say in it.
type egressNotes struct {
	app     *app
	sandbox string
	later   bool // tell at the end

	mu      sync.Mutex
	known   map[string]bool // texts that were told
	waiting []string
	away    bool // another far end serves
}

// see is told of all decisions.
func (n *egressNotes) see(d egress.Decision) {
	if n.app.json() {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	switch d.Verdict {
	case egress.Denied:
		text := fmt.Sprintf("commands were denied %s: %s", hostOf(d), d.Reason)
		if d.Allow != "" {
			text += ": --allow-host " + quote(d.Allow) + " allows it"
		}
		n.once("denied "+hostOf(d), text)
	case egress.Noticed:
		text := fmt.Sprintf("a request to %s has the credential %s in a wrong place: %s", hostOf(d), d.Secret, d.Reason)
		n.once(text, text)
	}
}

// once tells a text unless it did so for the same key. The caller holds mu.
func (n *egressNotes) once(key, text string) {
	if n.known == nil {
		n.known = map[string]bool{}
	}
	switch {
	case n.known[key] || len(n.known) > mostNotes:
		return
	case len(n.known) == mostNotes:
		text = fmt.Sprintf("sandbox %s: there is more to tell of its way out: \"orchestrator egress\" prints all", quote(n.sandbox))
	}
	n.known[key] = true
	n.say(text)
}

// say tells, now or later. The caller holds mu.
func (n *egressNotes) say(text string) {
	if n.later {
		n.waiting = append(n.waiting, text)
		return
	}
	n.app.note("%s", oneLine(text))
}

// changed tells when another far end serves in place of this program, and when it does so again.
func (n *egressNotes) changed(s farend.State) {
	n.mu.Lock()
	defer n.mu.Unlock()
	away := !s.Serving
	if s.Err != nil || away == n.away {
		return
	}
	n.away = away
	who := farend.ErrServed.Error()
	if !away {
		who = "this program serves its way out now"
	}
	n.once(fmt.Sprint("change ", len(n.known)), fmt.Sprintf("sandbox %s: %s", quote(n.sandbox), who))
}

// lost tells that this program serves no more.
func (n *egressNotes) lost(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.say(fmt.Sprintf("sandbox %s: this program serves its way out no more: %v", quote(n.sandbox), err))
}

// end tells what had to wait.
func (n *egressNotes) end() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, text := range n.waiting {
		n.app.note("%s", oneLine(text))
	}
	n.waiting, n.later = nil, false
}

// hostOf returns what was asked for, as it may be printed anywhere.
func hostOf(d egress.Decision) string {
	host := render.Terminal(true).Name(d.Host)
	switch {
	case host == "":
		return "a connection"
	case d.Port == 0:
		return host
	}
	return net.JoinHostPort(host, strconv.Itoa(d.Port))
}
