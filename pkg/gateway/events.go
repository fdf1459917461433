package gateway

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/podagent/podagent/pkg/launcher"
)

// eventful is a launcher whose sandboxes have events.
type eventful interface {
	// Events returns the latest 100 about a sandbox, newest first.
	Events(ctx context.Context, id string) ([]launcher.Event, error)
}

func (g *Gateway) eventOperations() {
	register(g, http.MethodGet, sandboxRoot+"/events", "get-events", "Get what the cluster reports of a sandbox's pod; this does not end its idle time", g.events)
}

// Event is something that happened to a sandbox's pod.
type Event struct {
	Time    time.Time `json:"time" doc:"when it last occurred"`
	Count   int       `json:"count" doc:"how often it occurred"`
	Warning bool      `json:"warning,omitempty" doc:"something went wrong, or might have"`
	Reason  string    `json:"reason" doc:"a word of Kubernetes, for programs" example:"Evicted"`
	Message string    `json:"message" doc:"a sentence, for people"`
}

type eventsOutput struct {
	Body struct {
		Events []Event `json:"events" nullable:"false" doc:"up to 100 of the last hour, the newest first"`
	}
}

// errBusyEvents answers while others read events for long.
var errBusyEvents = &refusal{http.StatusServiceUnavailable, "unavailable", "the cluster does not tell the events soon enough"}

func (g *Gateway) events(ctx context.Context, in *sandboxPath) (*eventsOutput, error) {
	of, ok := g.Launcher.(eventful)
	if !ok {
		if _, err := g.find(ctx, in.ID); err != nil {
			return nil, err
		}
		return nil, huma.Error501NotImplemented("sandboxes of this backend have no events")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, eventsTime, errBusyEvents)
	defer cancel()
	select {
	case g.eventReaders <- struct{}{}:
		defer func() { <-g.eventReaders }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	all, err := of.Events(ctx, launcherID(tenantOf(ctx), in.ID))
	switch {
	case errors.Is(err, launcher.ErrForbidden):
		g.failing.Do(func() { g.Log.WarnContext(ctx, "cannot read events: a Role must allow to list them", "error", err) })
		return nil, huma.Error501NotImplemented("this gateway is not allowed to list the events of its cluster")
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, err
	}
	out := &eventsOutput{}
	out.Body.Events = make([]Event, len(all))
	for i, e := range all {
		out.Body.Events[i] = Event{e.Time, e.Count, e.Type != "Normal", eventText(ctx, e.Reason), eventText(ctx, e.Message)}
	}
	return out, nil
}

// eventText returns a text of the cluster as a caller may see it.
func eventText(ctx context.Context, text string) string {
	return ownNames(ctx, strings.ToValidUTF8(text[:min(len(text), eventTextLimit)], "\ufffd"))
}
