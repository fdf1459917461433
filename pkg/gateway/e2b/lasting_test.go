package e2b

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/test/contracts"
)

// lasting is a launcher whose sandboxes end by a time. Find tells the time that was set last but one, as to
// a caller who is overtaken by another one.
type lasting struct {
	*pausable
	seen  time.Time
	ends  time.Time
	fails atomic.Pointer[error] // of Pause and Terminate
	state launcher.State        // unless empty
}

func (l *lasting) Find(ctx context.Context, id string) (launcher.Summary, error) {
	s, err := l.pausable.Find(ctx, id)
	if s.Expires = l.seen; l.state != "" {
		s.State = l.state
	}
	return s, err
}

func (l *lasting) Extend(_ context.Context, _ string, d time.Duration) (time.Time, error) {
	if ends := time.Now().Add(d); ends.After(l.ends) {
		l.ends = ends
	}
	return l.ends, nil
}

func (l *lasting) Expire(_ context.Context, _ string, at time.Time) (time.Time, error) {
	l.ends = at
	return at, nil
}

func (l *lasting) Pause(ctx context.Context, id string) error {
	if err := l.fails.Load(); err != nil {
		return *err
	}
	return l.pausable.Pause(ctx, id)
}

func (l *lasting) Terminate(ctx context.Context, id string) error {
	if err := l.fails.Load(); err != nil {
		return *err
	}
	return l.pausable.Terminate(ctx, id)
}

func newLasting(t *testing.T) (*box, *lasting) {
	l := &lasting{}
	b := newBox(t, func(o *gateway.Options) {
		l.pausable = &pausable{Local: o.Launcher.(*launcher.Local)}
		o.Launcher = l
	})
	return b, l
}

// control calls the control plane for the sandbox, or below another path than its own.
func (b *box) control(method, path, body string) (int, string) {
	b.Helper()
	return b.send(method, strings.Replace(path, "~", "/sandboxes/"+b.id, 1), body, "X-API-KEY: a", "Content-Type: application/json")
}

func TestConnectShortensNoLife(t *testing.T) {
	b, l := newLasting(t)
	asked := time.Now().Add(time.Hour)
	for what, prepare := range map[string]func(){
		"that another client has just extended": func() {},
		"that another client has just resumed":  func() { l.paused.Store(true) },
	} {
		l.seen, l.ends = time.Now().Add(time.Minute), asked
		prepare()
		if code, text := b.control("POST", "/v2~/connect", `{"timeout":300}`); code >= 300 || l.ends.Before(asked) {
			t.Errorf("a connect to a sandbox %s: %d %s, and it ends %v sooner", what, code, text, asked.Sub(l.ends))
		}
	}
	if code, text := b.control("POST", "/v2~/connect", `{"timeout":7200}`); code != http.StatusOK || !l.ends.After(asked) {
		t.Errorf("a connect for longer: %d %s, and it ends at %v", code, text, l.ends)
	}
}

func TestKillTellsThatItFailed(t *testing.T) {
	b, l := newLasting(t)
	full := errors.New("the disk cannot be removed")
	l.state = launcher.Ended
	l.fails.Store(&full)
	if code, text := b.control("DELETE", "~", ""); code != http.StatusInternalServerError {
		t.Errorf("a kill that removes nothing: %d %s", code, text)
	}
	l.fails.Store(nil)
	if code, text := b.control("DELETE", "~", ""); code != http.StatusNotFound {
		t.Errorf("a kill of one that has ended: %d %s", code, text)
	}
	if code, text := b.control("DELETE", "~", ""); code != http.StatusNotFound {
		t.Errorf("a kill of one that was removed: %d %s", code, text)
	}
}

func TestOnlyAPausedSandboxIsSaidToBePaused(t *testing.T) {
	b, l := newLasting(t)
	for _, c := range []struct {
		why  error
		want int
	}{
		{launcher.ErrOwned, http.StatusBadRequest},
		{launcher.ErrNotKept, http.StatusBadRequest},
		{launcher.ErrPaused, http.StatusConflict},
		{launcher.ErrDeadline, http.StatusBadRequest},
		{context.DeadlineExceeded, http.StatusGatewayTimeout},
	} {
		l.fails.Store(&c.why)
		if code, text := b.control("POST", "~/pause", ""); code != c.want {
			t.Errorf("a pause that ends with %v: %d %s, want %d", c.why, code, text, c.want)
		}
	}
	l.fails.Store(nil)
}

func TestTimeoutOfASandboxThatPausesWhenIdleIsTaken(t *testing.T) {
	contracts.Record(t, "e2b", "HTTP").Saw(contracts.Works, "setTimeout", "Sandbox.create with lifecycle")
	b := newBox(t, func(o *gateway.Options) { o.Launcher = &pausable{Local: o.Launcher.(*launcher.Local)} })
	code, text := b.control("POST", "/v2/sandboxes", `{"autoPause":true,"autoResume":{"enabled":true}}`)
	if code != http.StatusCreated {
		t.Fatal(text)
	}
	_, rest, _ := strings.Cut(text, `"sandboxID":"`)
	b.id, _, _ = strings.Cut(rest, `"`)
	for body, want := range map[string]int{`{"timeout":600}`: http.StatusNoContent, `{"timeout":-1}`: http.StatusBadRequest} {
		if code, text := b.control("POST", "~/timeout", body); code != want {
			t.Errorf("%s: %d %s, want %d", body, code, text, want)
		}
	}
}
