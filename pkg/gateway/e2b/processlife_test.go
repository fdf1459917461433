package e2b

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/test/contracts"
)

const (
	// waits prints a line, waits for the file go, and prints another one.
	waits = "echo one; until [ -e go ]; do sleep 0.01; done; echo two; exit 3"
	// lasts runs until it is ended. A signal that comes just when bash executes another program may be lost
	// to bash, so sh says that it may come: it leaves signals as they are.
	lasts = "exec sh -c 'echo one; exec sleep 300'"
)

func TestCommandOutlivesItsCallerAndIsFollowedFromTheStart(t *testing.T) {
	contracts.Record(t, "e2b", "HTTP").Saw(contracts.Works, "commands.run in the background", "commands.connect", "commands.list")
	b := newBox(t)
	first := b.start(script(waits), "Connect-Timeout-Ms: 0")
	first.until("one")
	first.leave()
	p, ok := b.running()[first.pid]
	if !ok || p.Config.Cmd != "/bin/bash" || strings.Join(p.Config.Args, " ") != "-l -c "+waits {
		t.Fatalf("of pid %d it is said %+v", first.pid, p)
	}
	again := b.open("Connect", of(first.pid)).started()
	if again.pid != first.pid {
		t.Errorf("the pid is %d, and was %d", again.pid, first.pid)
	}
	again.until("one")
	b.touch("go")
	want := endEvent{3, true, "exit status 3", "exit status 3"}
	if got := again.rest(); got.stdout != "two\n" || got.end == nil || *got.end != want {
		t.Errorf("it went on with %+v", got)
	}
	if got := b.open("Connect", of(first.pid)).started().rest(); got.stdout != "one\ntwo\n" || got.end == nil || *got.end != want {
		t.Errorf("after its end it is %+v", got)
	}
	if all := b.running(); len(all) != 0 {
		t.Errorf("there run %v", all)
	}
	if _, ended := b.open("Connect", of(first.pid+1)).next(); !strings.Contains(ended, `"code":"not_found"`) {
		t.Errorf("of a pid that there is not: %s", ended)
	}
}

func TestTimeoutOfItsStartEndsACommand(t *testing.T) {
	b := newBox(t)
	left := b.startInTime(script("trap '' TERM; sleep 300 & wait")) // it does not end by itself, and its child neither
	left.leave()
	if got := b.startInTime(script(lasts)).rest(); got.end != nil || !strings.Contains(got.ended, `"code":"deadline_exceeded"`) {
		t.Errorf("%+v", got)
	}
	b.eventually("no command runs any more", func() bool { return len(b.running()) == 0 })
	p, err := b.sandbox.Strays(t.Context())
	if err != nil || p != 0 {
		t.Errorf("%d processes are left: %v", p, err)
	}
}

func TestCommandWhoseCallerIsGoneBeforeItStartsDoesNotRunOn(t *testing.T) {
	b := newBox(t)
	agent := parentOf(t, b.start(script("exec sleep 300")).pid)
	signal := func(s syscall.Signal) {
		if err := syscall.Kill(agent, s); err != nil {
			t.Error(err)
		}
	}
	signal(syscall.SIGSTOP) // so that it starts nothing before the call's time is over
	got := b.open("Start", `{"process":{"cmd":"yes"},"stdin":false}`, "Connect-Timeout-Ms: 200").rest()
	signal(syscall.SIGCONT)
	if got.end != nil || !strings.Contains(got.ended, `"code":"deadline_exceeded"`) {
		t.Errorf("%+v", got)
	}
	b.eventually("the command does not run any more", func() bool { return len(b.running()) == 1 })
}

func TestTimeoutOfAConnectEndsTheConnectAlone(t *testing.T) {
	contracts.Record(t, "e2b", "HTTP").Saw(contracts.Works, "timeoutMs of a connect")
	b := newBox(t)
	s := b.start(script(waits))
	if got := b.open("Connect", of(s.pid), "Connect-Timeout-Ms: 200").rest(); got.end != nil || !strings.Contains(got.ended, `"code":"deadline_exceeded"`) {
		t.Errorf("%+v", got)
	}
	b.touch("go")
	if got := s.rest(); got.end == nil || got.end.ExitCode != 3 {
		t.Errorf("the command: %+v", got)
	}
}

func TestSilentCommandSendsKeepalives(t *testing.T) {
	b := newBox(t)
	s := b.start(script("exec sleep 300"), "Keepalive-Ping-Interval: 1")
	if e, ended := s.next(); e.Keepalive == nil {
		t.Errorf("the next event is %+v %s", e, ended)
	}
}

func TestSignalsEndCommandsAndTheirChildren(t *testing.T) {
	contracts.Record(t, "e2b", "HTTP").Saw(contracts.Works, "commands.kill, handle.kill")
	b := newBox(t)
	signal := func(pid int, signal string) (int, string) {
		return b.call("SendSignal", fmt.Sprintf(`{"process":{"pid":%d},"signal":%s}`, pid, signal))
	}
	for name, want := range map[string]endEvent{
		`"SIGNAL_SIGTERM"`: {-1, false, "signal: terminated", "signal: terminated"},
		`"SIGNAL_SIGKILL"`: {-1, false, "signal: killed", "signal: killed"},
		`15`:               {-1, false, "signal: terminated", "signal: terminated"},
		`1`:                {-1, false, "signal: hangup", "signal: hangup"},
	} {
		s := b.start(script(lasts))
		s.until("one")
		if code, body := signal(s.pid, name); code != 200 || strings.TrimSpace(body) != "{}" {
			t.Errorf("%s: %d %s", name, code, body)
		}
		if got := s.rest(); got.end == nil || *got.end != want {
			t.Errorf("%s: %+v", name, got.end)
		}
		if code, body := signal(s.pid, name); code != 404 || !strings.Contains(body, `"code":"not_found"`) {
			t.Errorf("%s of one that has ended: %d %s", name, code, body)
		}
	}
	s := b.start(script("trap 'echo got; exit 4' TERM; echo one; while :; do sleep 0.01; done"))
	s.until("one")
	signal(s.pid, `"SIGNAL_SIGTERM"`)
	if got := s.rest(); got.stdout != "got\n" || got.end == nil || got.end.ExitCode != 4 {
		t.Errorf("one that catches it: %+v", got)
	}
	for body, code := range map[string]int{
		`{"process":{"pid":99999999},"signal":9}`:             404,
		`{"process":{"pid":1}}`:                               400,
		`{"process":{"pid":1},"signal":"SIGNAL_UNSPECIFIED"}`: 400,
		`{"process":{"pid":1},"signal":"SIGHUP"}`:             400,
		`{"process":{"pid":1},"signal":65}`:                   400,
		`{"process":{"pid":1},"signal":-9}`:                   400,
		`{"process":{"pid":1},"signal":1.5}`:                  400,
		`{"process":{},"signal":9}`:                           400,
		`{"process":{"pid":1,"tag":"x"},"signal":9}`:          400,
		`{"process":{"pid":"1"},"signal":9}`:                  400,
		`{"signal":9}`:                                        400,
	} {
		if got, text := b.call("SendSignal", body); got != code {
			t.Errorf("%s: %d %s", body, got, text)
		}
	}
}

func TestTagNamesAProcess(t *testing.T) {
	contracts.Record(t, "e2b", "HTTP").Saw(contracts.Works, "tag of a command")
	b := newBox(t)
	const tag = "a täg = \"x\""
	s := b.start(script(lasts, `,"tag":"a täg = \"x\""`))
	s.until("one")
	other := b.start(script(lasts, `,"tag":"b"`))
	plain := b.start(script(lasts))
	b.eventually("the tags are listed", func() bool {
		all := b.running()
		return all[s.pid].Tag == tag && all[other.pid].Tag == "b" && all[plain.pid].Tag == ""
	})
	if again := b.open("Connect", `{"process":{"tag":"a täg = \"x\""}}`).started(); again.pid != s.pid {
		t.Errorf("the tag names %d, want %d", again.pid, s.pid)
	}
	if code, body := b.call("SendSignal", `{"process":{"tag":"a täg = \"x\""},"signal":9}`); code != 200 {
		t.Errorf("%d %s", code, body)
	}
	if got := s.rest(); got.end == nil || got.end.Status != "signal: killed" {
		t.Errorf("%+v", got)
	}
	if got := b.open("Connect", `{"process":{"tag":"a täg = \"x\""}}`).started().rest(); got.stdout != "one\n" || got.end == nil {
		t.Errorf("after its end it is %+v", got)
	}
	second := b.start(script(lasts, `,"tag":"a täg = \"x\""`))
	if again := b.open("Connect", `{"process":{"tag":"a täg = \"x\""}}`).started(); again.pid != second.pid {
		t.Errorf("the tag names %d, and not the one that runs, %d", again.pid, second.pid)
	}
	if _, ended := b.open("Connect", `{"process":{"tag":"none"}}`).next(); !strings.Contains(ended, `"code":"not_found"`) {
		t.Errorf("no such tag: %s", ended)
	}
}

func TestLostOutputIsSaid(t *testing.T) {
	b := newBox(t)
	const all = 80_000_000
	cmd := b.sandbox.Shell(t.Context(), fmt.Sprintf("yes 0123456789abcde | head -c %d", all))
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	got := b.open("Connect", of(cmd.Process.PID())).started().rest()
	if got.end == nil || !strings.Contains(got.end.Error, fmt.Sprintf("%d bytes of its output are missing", all-len(got.stdout))) || got.end.ExitCode != 0 {
		t.Errorf("of %d bytes there came %d, and at the end %+v", all, len(got.stdout), got.end)
	}
	if !strings.HasSuffix(got.stdout, "0123456789abcde\n") || len(got.stdout) < 32<<20 {
		t.Errorf("of %d bytes there came %d", all, len(got.stdout))
	}
}

func TestGatewayThatEndsLeavesCommandsRunning(t *testing.T) {
	contracts.Record(t, "e2b", "HTTP").Saw(contracts.Works, "a gateway that ends")
	b := newBox(t)
	s := b.start(script(lasts))
	again := b.open("Connect", of(s.pid)).started()
	s.until("one")
	ended := make(chan error, 1)
	go func() { ended <- b.gateway.Shutdown(t.Context()) }()
	for _, one := range []*stream{s, again} {
		if got := one.rest(); got.end != nil || !strings.Contains(got.ended, `"code":"aborted","message":"this gateway ends`) {
			t.Errorf("%+v", got)
		}
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	all, err := b.sandbox.Processes(t.Context())
	if err != nil || len(all) != 1 || all[0].Status != nil {
		t.Errorf("of the command there is %+v, %v", all, err)
	}
}

func TestSandboxThatIsGoneIsNeverWaitedFor(t *testing.T) {
	b := newBox(t)
	s := b.start(script(lasts))
	s.until("one")
	if code, body := b.send("DELETE", "/sandboxes/"+b.id, "", "X-API-Key: a"); code != 204 {
		t.Fatal(code, body)
	}
	if got := s.rest(); got.end == nil && !strings.Contains(got.ended, `"code":"unavailable"`) {
		t.Errorf("the stream ended with %+v", got)
	}
	for method, body := range map[string]string{
		"List": `{}`, "Update": `{"process":{"pid":1},"pty":{"size":{"cols":1,"rows":1}}}`, "SendInput": `{"process":{"pid":1},"input":{"stdin":""}}`,
		"SendSignal": `{"process":{"pid":1},"signal":9}`, "CloseStdin": of(1),
	} {
		if code, text := b.call(method, body); code != 502 || !strings.Contains(text, `"code":"unavailable"`) {
			t.Errorf("%s: %d %s", method, code, text)
		}
	}
	for method, body := range map[string]string{"Start": script("true"), "Connect": of(1), "StreamInput": `{"start":{"process":{"pid":1}}}`} {
		code, text := b.send("POST", "/process.Process/"+method, envelope(0, body), b.headers(streamType)...)
		if code != 502 || !strings.Contains(text, `"code":"unavailable"`) {
			t.Errorf("%s: %d %s", method, code, text)
		}
	}
}

func TestLostAgentIsNoFaultOfTheRequest(t *testing.T) {
	b := newBox(t)
	s := b.start(script(lasts))
	s.until("one")
	if err := syscall.Kill(parentOf(t, s.pid), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if got := s.rest(); got.end != nil || !strings.Contains(got.ended, `"code":"unavailable"`) {
		t.Errorf("the stream ended with %+v", got)
	}
}

// parentOf returns the pid of a command's parent, which is the agent.
func parentOf(t *testing.T, pid int) (parent int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "\nPPid:")
	if _, err := fmt.Sscan(rest, &parent); err != nil || parent <= 1 || parent == os.Getpid() {
		t.Fatalf("the parent of %d is %d: %v", pid, parent, err)
	}
	return parent
}

// witness is an observer that refuses what it is told to.
type witness struct {
	mu      sync.Mutex
	refuses bool
	began   []gateway.Act
	ended   map[string]gateway.Outcome // by the operations of their acts
}

func (w *witness) Begin(_ context.Context, a gateway.Act) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if strings.HasPrefix(a.Operation, "e2b.process/") {
		w.began = append(w.began, a)
		if w.refuses {
			return errors.New("no")
		}
	}
	return nil
}

func (w *witness) End(_ context.Context, a gateway.Act, o gateway.Outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if strings.HasPrefix(a.Operation, "e2b.process/") {
		w.ended[a.Operation] = o
	}
}

func TestObserversSeeWhatIsDone(t *testing.T) {
	w := &witness{ended: map[string]gateway.Outcome{}}
	b := newBox(t, func(o *gateway.Options) { o.Observers = []gateway.Observer{w} })
	s := b.start(script("exit 6"))
	s.rest()
	b.call("SendSignal", fmt.Sprintf(`{"process":{"pid":%d},"signal":9}`, s.pid))
	b.eventually("both have ended", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return len(w.ended) == 2 })
	w.mu.Lock()
	a, o := w.began[0], w.ended["e2b.process/Start"]
	if a.Operation != "e2b.process/Start" || strings.Join(a.Detail.Args, " ") != "/bin/bash -l -c exit 6" || o.Exit == nil || *o.Exit != 6 || o.PID != s.pid || o.Class != "" {
		t.Errorf("%+v %+v", a, o)
	}
	if a, o := w.began[1], w.ended["e2b.process/SendSignal"]; a.Operation != "e2b.process/SendSignal" || a.Detail.ExecID != fmt.Sprintf("pid %d", s.pid) || o.Class != "not_exist" || o.Status != 404 {
		t.Errorf("%+v %+v", a, o)
	}
	w.refuses = true
	w.mu.Unlock()
	if _, ended := b.open("Start", script("touch ran")).next(); !strings.Contains(ended, `"code":"aborted"`) {
		t.Errorf("one that must not take place: %s", ended)
	}
	if _, err := b.sandbox.Stat(t.Context(), "ran"); err == nil {
		t.Error("it has taken place")
	}
}

// FuzzProcessRequests has bodies of any shape: each is understood, or is said to be wrong.
func FuzzProcessRequests(f *testing.F) {
	for _, body := range []string{
		script("true", `,"tag":"t","pty":{"size":{"cols":1,"rows":2}}`), of(1), `{"process":{"tag":""},"input":{"stdin":"eA=="}}`,
		`{"process":{"pid":1},"signal":"SIGNAL_SIGKILL"}`, `{"start":{"process":{"pid":1}}}`, `{"process":null,"pty":{"size":null}}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		start, signal, input, streamed := &startRequest{}, &sendSignalRequest{}, &sendInputRequest{}, &streamInputRequest{}
		for _, in := range []any{start, signal, input, streamed, &updateRequest{}} {
			_ = jsonCodec{}.Unmarshal(body, in)
		}
		if start.fault() == nil {
			cmd := &podapi.Cmd{}
			start.settle(t.Context(), cmd)
			if len(cmd.Env) < len(start.Process.Envs) || (start.Tag != "") != isTagged(cmd.ID) {
				t.Errorf("%+v of %s", cmd, body)
			}
		}
		if signal.Signal < 0 || signal.Signal > 64 {
			t.Errorf("the signal %d of %s", signal.Signal, body)
		}
		if input.Process.fault() == nil && input.Process.String() == "" || input.Input.fault() == nil && (input.Input.Stdin == nil) == (input.Input.PTY == nil) {
			t.Errorf("%+v of %s", input, body)
		}
	})
}

// It is not that the command ends by a signal: SDKs throw that as the command's own failure.
func TestEndOfASandboxIsNoEndOfItsCommands(t *testing.T) {
	b := newBox(t)
	s := b.start(script(lasts))
	s.until("one")
	if code, body := b.send("DELETE", "/sandboxes/"+b.id, "", "X-API-Key: a"); code != 204 {
		t.Fatalf("%d %s", code, body)
	}
	if got := s.rest(); got.end != nil || !strings.Contains(got.ended, `"code":"unavailable"`) {
		t.Errorf("its caller is told %+v: %s", got.end, got.ended)
	}
}
