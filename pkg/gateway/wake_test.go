package gateway_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/launcher/ledger"
)

// sleeper is a local launcher, one of whose sandboxes can be paused as a pod can: nobody opens it
// then, until it is resumed.
type sleeper struct {
	*launcher.Local
	paused  atomic.Bool
	resumes atomic.Int32
	held    chan struct{} // a resume waits for it
}

// Launch leaves out what only pods can keep.
func (l *sleeper) Launch(ctx context.Context, spec launcher.Spec) (*launcher.Sandbox, error) {
	spec.Pod = launcher.Pod{}
	return l.Local.Launch(ctx, spec)
}

func (l *sleeper) Open(ctx context.Context, id string) (*launcher.Sandbox, error) {
	if l.paused.Load() {
		return nil, launcher.ErrPaused
	}
	return l.Local.Open(ctx, id)
}

func (l *sleeper) Find(ctx context.Context, id string) (launcher.Summary, error) {
	s, err := l.Local.Find(ctx, id)
	if l.paused.Load() {
		s.State = launcher.Paused
	}
	return s, err
}

func (l *sleeper) List(ctx context.Context) ([]launcher.Summary, error) {
	all, err := l.Local.List(ctx)
	for i := range all {
		if l.paused.Load() {
			all[i].State = launcher.Paused
		}
	}
	return all, err
}

func (l *sleeper) Pause(context.Context, string) error { l.paused.Store(true); return nil }

func (l *sleeper) Resume(ctx context.Context, id string) (*launcher.Sandbox, error) {
	l.resumes.Add(1)
	select {
	case <-l.held:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	l.paused.Store(false)
	return l.Local.Open(ctx, id)
}

func (l *sleeper) Extend(context.Context, string, time.Duration) (time.Time, error) {
	return time.Time{}, launcher.ErrNoLifetime
}

func (l *sleeper) Expire(context.Context, string, time.Time) (time.Time, error) {
	return time.Time{}, launcher.ErrNoLifetime
}

// asleep returns a gateway whose sandbox job-1, made with this body, is paused.
func asleep(t *testing.T, body string, patience time.Duration) (*door, *sleeper) {
	t.Helper()
	l := &sleeper{Local: launchertest.Local(t), held: make(chan struct{})}
	g := gateway.New(gateway.Options{Launcher: l, Tenants: gateway.OneTenant{Name: "acme", Token: "a"}, Domain: "sandboxes.test"})
	gateway.SetPatience(g, patience)
	server := newServer(g)
	t.Cleanup(func() {
		server.Close()
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	d := &door{T: t, url: server.URL}
	d.walk(
		step{"POST", "/api/v1/sandboxes", body, nil, 201, ``},
		step{"POST", "~/pause", "", nil, 204, ``},
	)
	return d, l
}

const autoPause = `{"id":"job-1","auto_pause":true,"idle_seconds":60}`

func TestATerminalWakesNobodyAgainstItsCallersWill(t *testing.T) {
	d, l := asleep(t, autoPause, hung)
	close(l.held)
	open := func(query string) (status int, body string) {
		conn, r, err := dialer(terminalProtocol).DialContext(t.Context(), strings.Replace(d.url, "http", "ws", 1)+"/api/v1/sandboxes/job-1/terminal?"+query, http.Header{"Authorization": {"Bearer a"}})
		if err == nil {
			conn.Close()
			return r.StatusCode, ""
		}
		text, _ := io.ReadAll(r.Body)
		return r.StatusCode, string(text)
	}
	for query, want := range map[string]string{"wake=false": `"class":"paused"`, "wake=false&exec_id=01890a5d-ac96-774b-bcce-b302099a8057": `"class":"paused"`, "wake=maybe": "wake must be"} {
		if status, text := open(query); !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", query, status, text)
		}
	}
	if n := l.resumes.Load(); n != 0 {
		t.Errorf("%d resumptions", n)
	}
	if status, text := open("wake=true"); status != http.StatusSwitchingProtocols || l.resumes.Load() != 1 {
		t.Errorf("a terminal that wakes it: %d %s; %d resumptions", status, text, l.resumes.Load())
	}
	if status, text := open("wake=false"); status != http.StatusSwitchingProtocols {
		t.Errorf("a terminal of a sandbox that is awake: %d %s", status, text)
	}
}

func TestCallsWakeASleepingSandboxOnce(t *testing.T) {
	d, l := asleep(t, autoPause, hung)
	const callers = 100
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			if i%2 == 0 {
				d.walk(step{"POST", "~/exec", `{"script":"echo awake"}`, nil, 200, `"stdout":"awake\\n"`})
			} else {
				d.walk(step{"GET", "~/files/list?path=.", "", nil, 200, `"entries"`})
			}
		})
	}
	close(l.held)
	wg.Wait()
	if n := l.resumes.Load(); n != 1 {
		t.Errorf("%d calls resumed it %d times", callers, n)
	}
}

func TestLookingOnWakesNothing(t *testing.T) {
	d, l := asleep(t, autoPause, hung)
	d.walk(
		step{"GET", "~", "", nil, 200, `"state":"paused".*"auto_pause":true`},
		step{"GET", "/api/v1/sandboxes?state=running", "", nil, 200, ``},
		step{"GET", "~/stats", "", nil, 409, `"class":"paused"`},
		step{"GET", "~/processes", "", nil, 409, `"class":"paused"`},
		step{"GET", "/healthz", "", nil, 200, `{"status":"ok"}`},
	)
	if n := l.resumes.Load(); n != 0 {
		t.Errorf("it was resumed %d times", n)
	}
}

func TestOutputsAndChangesWakeNobodyAgainstTheirCallersWill(t *testing.T) {
	d, l := asleep(t, autoPause, hung)
	close(l.held)
	const output = "~/processes/01890a5d-ac96-774b-bcce-b302099a8057/output?follow=true&wake="
	for _, path := range []string{output, "~/watch?path=.&wake="} {
		d.walk(
			step{"GET", path + "false", "", nil, 409, `"class":"paused"`},
			step{"GET", path + "maybe", "", nil, 422, `wake must be`},
		)
	}
	if n := l.resumes.Load(); n != 0 {
		t.Errorf("it was resumed %d times", n)
	}
	d.walk(
		step{"GET", output + "true", "", nil, 404, `"class":"not_exist"`},
		step{"GET", output + "false", "", nil, 404, `"class":"not_exist"`},
	)
	if n := l.resumes.Load(); n != 1 {
		t.Errorf("it was resumed %d times", n)
	}
}

func TestSandboxThatWasPausedByHandStaysSo(t *testing.T) {
	d, l := asleep(t, `{"id":"job-1"}`, hung)
	d.walk(step{"POST", "~/exec", `{"script":"true"}`, nil, 409, `"class":"paused"`})
	if n := l.resumes.Load(); n != 0 {
		t.Errorf("it was resumed %d times", n)
	}
}

// Who has waited for long is told when to try again, and the resumption goes on for those who do.
func TestCallerThatCannotWaitIsToldToTryAgain(t *testing.T) {
	d, l := asleep(t, autoPause, time.Millisecond)
	for range 2 {
		got := d.send("a", "POST", "/api/v1/sandboxes/job-1/exec", `{"script":"true"}`)
		if got.StatusCode != 503 || got.Header.Get("Retry-After") == "" || !strings.Contains(got.text, `"class":"not_ready"`) {
			t.Errorf("%d %q %s", got.StatusCode, got.Header.Get("Retry-After"), got.text)
		}
		routed := d.send("a", "GET", "/", "", "X-Sandbox-ID: job-1")
		if routed.StatusCode != 503 || routed.Header.Get("Retry-After") == "" {
			t.Errorf("routed: %d %q %s", routed.StatusCode, routed.Header.Get("Retry-After"), routed.text)
		}
	}
	close(l.held)
	for deadline := time.Now().Add(hung); d.send("a", "POST", "/api/v1/sandboxes/job-1/exec", `{"script":"true"}`).StatusCode != 200; {
		if time.Now().After(deadline) {
			t.Fatal("it is never ready")
		}
	}
	if n := l.resumes.Load(); n != 1 {
		t.Errorf("it was resumed %d times", n)
	}
}

func TestRequestThatCannotWakeWithinTheBudgetSaysSo(t *testing.T) {
	l := &sleeper{Local: launchertest.Local(t), held: make(chan struct{})}
	close(l.held)
	d := doorOver(t, gateway.Options{Launcher: l, Ledger: ledger.Files{Dir: t.TempDir()}})
	d.writeQuota("rate: {}", "budget: {sandbox_hours_per_day: 0.001}")
	d.mustBe(201, d.send("b", "POST", sandboxes, autoPause)) // a key without a budget
	d.mustBe(204, d.send("b", "POST", sandboxes+"/job-1/pause", ""))
	for path, headers := range map[string][]string{sandboxes + "/job-1/files/list?path=.": nil, "/": {"X-Sandbox-ID: job-1"}} {
		a := d.mustBe(429, d.send("a", "GET", path, "", headers...))
		if p := problemOf(t, a); p.Class != "budget_exceeded" {
			t.Errorf("%s: %s", path, a.text)
		}
	}
	if n := l.resumes.Load(); n != 0 {
		t.Errorf("it was resumed %d times", n)
	}
}
