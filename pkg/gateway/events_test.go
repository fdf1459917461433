package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher"
)

// told is a launcher to which a cluster tells events.
type told struct {
	launcher.Launcher
	events []launcher.Event
	err    error

	within, most atomic.Int32
	leave        chan struct{} // if it is set, each call waits for it
}

func (l *told) Events(ctx context.Context, id string) ([]launcher.Event, error) {
	now := l.within.Add(1)
	defer l.within.Add(-1)
	for most := l.most.Load(); now > most && !l.most.CompareAndSwap(most, now); most = l.most.Load() {
	}
	if l.leave != nil {
		<-l.leave
	}
	if _, err := l.Find(ctx, id); err != nil {
		return nil, err
	}
	return l.events, l.err
}

func toldDoor(t *testing.T, l *told) *door {
	t.Helper()
	return newDoor(t, func(o *gateway.Options) { l.Launcher, o.Launcher = o.Launcher, l })
}

func TestEventsAreToldToTheSandboxesTenant(t *testing.T) {
	at := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	d := toldDoor(t, &told{events: []launcher.Event{
		{Time: at, Count: 3, Type: "Warning", Reason: "Evicted", Message: `sandbox "acme.job-1" and sandbox "other.job-2" <b>` + "\xff\x1b[31m"},
		{Time: at, Count: 1, Type: "Normal", Reason: "Pulled", Message: strings.Repeat("m", 5000)},
	}})
	d.sandbox()
	got := d.send("a", "GET", job+"/events", "")
	var out struct{ Events []gateway.Event }
	if err := json.Unmarshal([]byte(got.text), &out); err != nil || len(out.Events) != 2 {
		t.Fatalf("%d %s", got.StatusCode, got.text)
	}
	if want := (gateway.Event{Time: at, Count: 3, Warning: true, Reason: "Evicted", Message: `sandbox "job-1" and another sandbox <b>` + "\ufffd\x1b[31m"}); out.Events[0] != want {
		t.Errorf("got %+v, want %+v", out.Events[0], want)
	}
	if got := out.Events[1]; got.Warning || len(got.Message) != 1024 {
		t.Errorf("%+v", got)
	}
	d.walk(
		step{"GET", "/api/v1/sandboxes/none/events", "", nil, 404, `"class":"no_sandbox"`},
		step{"GET", "/api/v1/sandboxes/No/events", "", nil, 422, ``},
	)
	for token, status := range map[string]int{"o": 404, "x": 401} {
		if got := d.send(token, "GET", job+"/events", ""); got.StatusCode != status {
			t.Errorf("the caller %s gets %d %s", token, got.StatusCode, got.text)
		}
	}
}

func TestEventsThatTheGatewayMayNotReadAreNotHidden(t *testing.T) {
	d := toldDoor(t, &told{err: fmt.Errorf("%w: %w", launcher.ErrForbidden, errors.New("serviceaccount internal-name cannot list"))})
	d.sandbox()
	d.walk(step{"GET", "~/events", "", nil, 501, `"detail":"this gateway is not allowed to list the events of its cluster","class":"unsupported"`})
}

func TestLocalSandboxesHaveNoEvents(t *testing.T) {
	d := newDoor(t)
	d.sandbox()
	d.walk(step{"GET", "~/events", "", nil, 501, `have no events","class":"unsupported"`})
}

// The API server looks through all events for each sandbox, so no tenant makes it do that at will.
func TestFewReadEventsAtATime(t *testing.T) {
	l := &told{leave: make(chan struct{})}
	d := toldDoor(t, l)
	d.sandbox()
	const all, atOnce = 12, 4
	answers := make(chan int, all)
	for range all {
		go func() { answers <- d.send("a", "GET", job+"/events", "").StatusCode }()
	}
	eventually(t, "as many calls as may be", func() bool { return l.within.Load() == atOnce })
	for range all {
		l.leave <- struct{}{}
		if status := <-answers; status != 200 {
			t.Errorf("%d", status)
		}
	}
	if most := l.most.Load(); most != atOnce {
		t.Errorf("%d read at once", most)
	}
}
