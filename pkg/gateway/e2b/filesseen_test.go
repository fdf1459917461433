package e2b

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher"
)

// pausable is a local launcher whose sandboxes can be paused as pods can: nobody opens one then, until
// it is resumed.
type pausable struct {
	*launcher.Local
	paused  atomic.Bool
	resumes atomic.Int32
}

// Launch leaves out what only pods can keep.
func (l *pausable) Launch(ctx context.Context, spec launcher.Spec) (*launcher.Sandbox, error) {
	spec.Pod = launcher.Pod{}
	return l.Local.Launch(ctx, spec)
}

func (l *pausable) Open(ctx context.Context, id string) (*launcher.Sandbox, error) {
	if l.paused.Load() {
		return nil, launcher.ErrPaused
	}
	return l.Local.Open(ctx, id)
}

func (l *pausable) Find(ctx context.Context, id string) (launcher.Summary, error) {
	s, err := l.Local.Find(ctx, id)
	if l.paused.Load() {
		s.State = launcher.Paused
	}
	return s, err
}

func (l *pausable) List(ctx context.Context) ([]launcher.Summary, error) {
	all, err := l.Local.List(ctx)
	for i := range all {
		if l.paused.Load() {
			all[i].State = launcher.Paused
		}
	}
	return all, err
}

func (l *pausable) Pause(context.Context, string) error { l.paused.Store(true); return nil }

func (l *pausable) Resume(ctx context.Context, id string) (*launcher.Sandbox, error) {
	l.resumes.Add(1)
	l.paused.Store(false)
	return l.Local.Open(ctx, id)
}

func (l *pausable) Extend(context.Context, string, time.Duration) (time.Time, error) {
	return time.Time{}, launcher.ErrNoLifetime
}

func (l *pausable) Expire(context.Context, string, time.Time) (time.Time, error) {
	return time.Time{}, launcher.ErrNoLifetime
}

func TestHealthWakesNothing(t *testing.T) {
	var l *pausable
	d := newEnvdDoor(t, func(o *gateway.Options) {
		l = &pausable{Local: o.Launcher.(*launcher.Local)}
		o.Launcher = l
	})
	d.write("file", "text")
	d.rest("POST", "/api/v1/sandboxes/job/pause", "")
	for _, path := range []string{"/health", "/metrics", "/files?path=file"} {
		if got := d.send("GET", path, ""); got.StatusCode != 502 {
			t.Errorf("%s of a sandbox that was paused: %d %s", path, got.StatusCode, got.text)
		}
	}
	d.stream502("filesystem.Filesystem/WatchDir", `{"path":"."}`)
	if n := l.resumes.Load(); n != 0 {
		t.Errorf("it was resumed %d times", n)
	}

	l.paused.Store(false)
	d.rest("POST", "/api/v1/sandboxes", `{"id":"sleepy","auto_pause":true,"idle_seconds":60}`)
	d.id, d.token = idOf("acme", "sleepy"), d.rest("GET", "/token/sleepy", "")
	d.rest("POST", "/api/v1/sandboxes/sleepy/pause", "")
	if got := d.send("GET", "/health", ""); got.StatusCode != 502 || l.resumes.Load() != 0 {
		t.Errorf("health of a sandbox that sleeps: %d %s, %d resumptions", got.StatusCode, got.text, l.resumes.Load())
	}
	if got := d.send("GET", "/files?path=file", ""); got.StatusCode != 404 || l.resumes.Load() != 1 {
		t.Errorf("a read in a sandbox that sleeps: %d %s, %d resumptions", got.StatusCode, got.text, l.resumes.Load())
	}
	if got := d.send("GET", "/health", ""); got.StatusCode != 204 {
		t.Errorf("health of a sandbox that was resumed: %d %s", got.StatusCode, got.text)
	}
}

// TestSandboxWithoutAnAgentDoesNotRun ends an agent that the gateway has a connection to.
func TestSandboxWithoutAnAgentDoesNotRun(t *testing.T) {
	var l *launcher.Local
	b := newBox(t, func(o *gateway.Options) { l = o.Launcher.(*launcher.Local) })
	health := func() (int, string) { return b.send("GET", "/health", "", b.headers("")...) }
	if code, text := health(); code != 204 {
		t.Fatalf("health: %d %s", code, text)
	}
	name, _, _ := strings.Cut(b.id, idSeparator)
	if err := l.Terminate(t.Context(), "acme."+name); err != nil {
		t.Fatal(err)
	}
	if code, text := health(); code != 502 {
		t.Errorf("health without the agent: %d %s", code, text)
	}
}

func TestSandboxThatIsOverNeedsNoAgentToSaySo(t *testing.T) {
	now := time.Now()
	for name, test := range map[string]struct {
		s    gateway.Sandbox
		want bool
	}{
		"running":              {gateway.Sandbox{State: string(launcher.Running)}, false},
		"with time left":       {gateway.Sandbox{State: string(launcher.Running), ExpiresAt: now.Add(time.Minute)}, false},
		"whose time is over":   {gateway.Sandbox{State: string(launcher.Running), ExpiresAt: now.Add(-time.Second)}, true},
		"that is about to run": {gateway.Sandbox{State: string(launcher.Pending)}, false},
		"that is being ended":  {gateway.Sandbox{State: string(launcher.Terminating)}, true},
		"that has ended":       {gateway.Sandbox{State: string(launcher.Ended)}, true},
	} {
		if got := isOver(&test.s, now); got != test.want {
			t.Errorf("one %s: %v", name, got)
		}
	}
}

// stream502 calls a method that answers with events, in a sandbox that is not there.
func (d *envdDoor) stream502(method, body string) {
	d.Helper()
	if got := d.send("POST", "/"+method, envelope(0, body), "Content-Type: "+streamType); got.StatusCode != 502 {
		d.Errorf("%s: %d %q", method, got.StatusCode, got.text)
	}
}

// observer has what acts were, and tells of those that ended.
type observer struct {
	mu   sync.Mutex
	acts []string
	ends chan string
	deny string // an operation that cannot be recorded
}

func (o *observer) Begin(_ context.Context, a gateway.Act) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.acts = append(o.acts, fmt.Sprint(a.Operation, " ", a.Sandbox, " ", a.Paths))
	if a.Operation == o.deny {
		return errors.New("denied")
	}
	return nil
}

// sofar returns what acts were.
func (o *observer) sofar() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.acts)
}

// refuse has an operation be one that cannot be recorded.
func (o *observer) refuse(operation string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.deny = operation
}

func (o *observer) End(_ context.Context, a gateway.Act, out gateway.Outcome) {
	select {
	case o.ends <- fmt.Sprint(a.Operation, " ", out.Status, " ", out.Class):
	default:
	}
}

func TestWhatIsDoneToFilesIsObserved(t *testing.T) {
	seen := &observer{ends: make(chan string, 1000)}
	d := newEnvdDoor(t, func(o *gateway.Options) { o.Observers = []gateway.Observer{seen} })
	d.write("a", "x")
	d.calls(methodCase{"Stat", `{"path":"a"}`, 200, ``}, methodCase{"Move", `{"source":"a","destination":"b"}`, 200, ``})
	d.send("GET", "/files?path=b", "")
	body, kind := form(t, field{"file", "by-name", "text"})
	d.uploads("", body, 200, ``, kind)
	d.send("GET", "/health", "")
	acts := seen.sofar()
	for _, want := range []string{"e2b.filesystem/Stat job [a]", "e2b.filesystem/Move job [a b]", "e2b.files/Read job [b]", "e2b.files/Write job [by-name]", "e2b.health job []"} {
		if !slices.Contains(acts, want) {
			t.Errorf("there is no %s, but %q", want, acts)
		}
	}
	seen.refuse("e2b.files/Write")
	d.uploads("?path=b", "new", 503, `cannot record`, octets)
	if got := d.content("b"); got != "x" {
		t.Errorf("a write that cannot be recorded has left %q", got)
	}
}

func TestWatchEndsWhenItsCallerLeaves(t *testing.T) {
	seen := &observer{ends: make(chan string, 1000)}
	d := newEnvdDoor(t, func(o *gateway.Options) { o.Observers = []gateway.Observer{seen} })
	ctx, leave := context.WithCancel(t.Context())
	d.expect(d.streamWith(ctx, "filesystem.Filesystem/WatchDir", `{"path":"."}`), `{"start":{}}`)
	leave()
	for limit := time.After(hung); ; {
		select {
		case end := <-seen.ends:
			if strings.HasPrefix(end, "e2b.filesystem/WatchDir ") {
				return
			}
		case <-limit:
			t.Fatal("the watch goes on")
		}
	}
}
