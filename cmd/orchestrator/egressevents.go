package main

import (
	"context"
	"fmt"
	"time"

	"github.com/podagent/podagent/pkg/egress"
	"github.com/podagent/podagent/pkg/egress/farend"
)

// An egressEvent is a line of the verb egress, as JSON and as text.
type egressEvent struct {
	json any
	text string
}

// egressEvents hands events to who prints them, one by one: a connection waits until its decision
// is printed, so that none is lost.
type egressEvents struct {
	ctx    context.Context
	events chan egressEvent
}

func (e *egressEvents) send(event egressEvent) {
	select {
	case e.events <- event:
	case <-e.ctx.Done():
	}
}

// decided sends a decision.
func (e *egressEvents) decided(d egress.Decision) {
	e.send(egressEvent{struct {
		Type string `json:"type"`
		egress.Decision
	}{"decision", d}, decisionText(d)})
}

// changed sends that this program serves, or stands by.
func (e *egressEvents) changed(s farend.State) {
	switch {
	case s.Serving:
		e.send(egressEvent{struct {
			Type string `json:"type"`
			Port int    `json:"port"`
		}{"serving", s.Port}, fmt.Sprintf("serving at port %d of the sandbox", s.Port)})
	case s.Err == nil:
		e.send(egressEvent{struct {
			Type string `json:"type"`
		}{"standby"}, "standing by: another program serves"})
	}
}

// ruled sends that the rules are others now.
func (e *egressEvents) ruled(rules []egress.Rule) {
	e.send(egressEvent{struct {
		Type  string        `json:"type"`
		Rules []egress.Rule `json:"rules"`
	}{"rules", rules}, fmt.Sprintf("the file has %d rules now", len(rules))})
}

// decisionText returns a decision as a line.
func decisionText(d egress.Decision) string {
	text := fmt.Sprintf("%s %s %s %s", d.Time.Format(time.RFC3339), d.Verdict, d.Protocol, hostOf(d))
	if d.Address.IsValid() {
		text += fmt.Sprintf(" at %v", d.Address)
	}
	if d.Rule != "" {
		text += ", rule " + d.Rule
	}
	if d.Secret != "" {
		text += ", credential " + d.Secret
	}
	if d.Reason != "" {
		text += ": " + oneLine(d.Reason)
	}
	return text
}

// printEvents prints events until ctx ends, and returns its cause.
func (a *app) printEvents(ctx context.Context, events <-chan egressEvent) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case e := <-events:
			if err := a.print(e.json, e.text+"\n"); err != nil {
				return err
			}
		}
	}
}
