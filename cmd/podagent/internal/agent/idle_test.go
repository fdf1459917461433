package agent

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/podagent/podagent/cmd/podagent/internal/proc"
)

// A process that no exec is known to have started may still be at work.
func TestAgentIsNotIdleUntilItsStraysHaveEnded(t *testing.T) {
	if !ownProgram(t) {
		return
	}
	const limit = strayDelay + lifePoll
	a := newAgent(Config{Log: slog.New(slog.DiscardHandler), Workdir: t.TempDir(), Alone: true, IdleTimeout: limit}, &wayOut{}, nil)
	stray := leaveStray(t, a)
	ended := make(chan string, 1)
	go func() { ended <- a.awaitEnd(t.Context()) }()
	// Each time it finds the stray after strayDelay: with two of them the limit is over.
	for range 2 {
		awaitActivity(t, a, ended)
	}
	if err := syscall.Kill(stray, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case reason := <-ended:
		if want := "idle for " + limit.String(); reason != want {
			t.Errorf("it ended because it was %q, want %q", reason, want)
		}
	case <-time.After(hung):
		t.Error("it does not end without the stray")
	}
}

// A server that a command is does not keep an agent that counts calls alone, but a call that waits
// for it does.
func TestAgentThatIgnoresCommandsIsIdleBesideOne(t *testing.T) {
	if !ownProgram(t) {
		return
	}
	a := newAgent(Config{Log: slog.New(slog.DiscardHandler), Workdir: t.TempDir(), Alone: true}, &wayOut{}, nil)
	p, _, err := a.processes.Start(t.Context(), proc.Spec{ID: uuid.Must(uuid.NewV7()).String(), Argv: []string{"sleep", "300"}, Dir: a.config.Workdir})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Signal(syscall.SIGKILL); _, _ = p.Wait(t.Context()) }()
	all, calls := idleLimit{after: time.Hour}, idleLimit{time.Hour, true}
	if idle := a.idleWithin(all); idle != 0 {
		t.Errorf("where commands count, it has been idle for %v", idle)
	}
	if idle := a.idleWithin(calls); idle <= 0 {
		t.Error("where calls alone count, it is not idle")
	}
	end := a.activity.begin()
	if idle := a.idleWithin(calls); idle != 0 {
		t.Errorf("beside a call, it has been idle for %v", idle)
	}
	end()
	if idle := a.idleWithin(calls); idle <= 0 {
		t.Error("after the call, it is not idle")
	}
}

// leaveStray has an exec start a process that blurs its mark, and leaves its session, its
// parents and its environment. It returns the pid when the exec has ended. The process blurs no more
// than that: the end of a local sandbox, in a test of another package, would take what could be of any.
func leaveStray(t *testing.T, a *Agent) int {
	t.Helper()
	const script = `mkfifo up
setsid -f env -i bash -c 'ulimit -x $(($(ulimit -x) - (1 << 40))); ulimit -R $(($(ulimit -R) - (1 << 40))); echo $$ > up; exec /bin/sleep 300' >&- 2>&-
read pid < up; echo $pid > pid`
	dir := a.config.Workdir
	p, _, err := a.processes.Start(t.Context(), proc.Spec{
		ID: uuid.Must(uuid.NewV7()).String(), Argv: []string{"sh", "-c", script}, Dir: dir, Env: os.Environ(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) }) // usually it has ended
	return pid
}

// awaitActivity waits until the agent notes work that is no call.
func awaitActivity(t *testing.T, a *Agent, ended <-chan string) {
	t.Helper()
	before, _ := a.activity.idleSince()
	for deadline := time.Now().Add(hung); ; {
		if last, _ := a.activity.idleSince(); last.After(before) {
			return
		}
		select {
		case reason := <-ended:
			t.Fatalf("it ended beside a stray: %s", reason)
		case <-time.After(time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatal("it does not find the stray")
		}
	}
}

// ownProgram runs the test that calls it again, in a program that does nothing else: an
// agent adopts all orphans of its program. It reports whether this is that run.
func ownProgram(t *testing.T) bool {
	t.Helper()
	const inside = "PODAGENT_TEST_OWN_PROGRAM"
	if os.Getenv(inside) != "" {
		return true
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout="+(4*hung).String())
	cmd.Env = append(os.Environ(), inside+"=1")
	out, err := cmd.CombinedOutput()
	if t.Logf("%s", out); err != nil {
		t.Fatal(err)
	}
	return false
}

func TestEndIsPutOffUnlessItMayBeSooner(t *testing.T) {
	now := time.Now()
	var l lifetime
	for _, step := range []struct {
		set    time.Duration
		sooner bool
		want   time.Duration
	}{
		{time.Hour, false, time.Hour},
		{time.Minute, false, time.Hour},
		{2 * time.Hour, false, 2 * time.Hour},
		{time.Minute, true, time.Minute},
		{3 * time.Hour, true, 3 * time.Hour},
	} {
		before, changed := l.get()
		l.set(now.Add(step.set), step.sooner)
		got, _ := l.get()
		if !got.Equal(now.Add(step.want)) {
			t.Errorf("after %+v it ends in %v", step, got.Sub(now))
		}
		if changed == nil || before.Equal(got) {
			continue
		}
		select {
		case <-changed:
		default:
			t.Errorf("who waits for the end is not told of %+v", step)
		}
	}
}
