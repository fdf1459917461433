package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

func TestTimeoutEndsAProcess(t *testing.T) {
	m := newManager(t)
	spec := argv(t, "sleep", "300")
	spec.Timeout = 100 * time.Millisecond
	st := run(t, m, spec).status
	if st.Reason != TimedOut || st.Signal != int(syscall.SIGTERM) || st.Code != 143 {
		t.Errorf("got %+v", st)
	}
	if st.Wall < spec.Timeout || st.Wall >= hung {
		t.Errorf("took %v", st.Wall)
	}
}

// startPrinted starts a process and waits until it has printed this many bytes.
func startPrinted(t *testing.T, m *Manager, spec Spec, size int64) *Process {
	t.Helper()
	p := start(t, m, spec)
	eventually(t, "output", func() bool { n, _, _ := p.out.sizes(); return n == size })
	return p
}

// From here on, the tests trigger the timeout with expire, once the process has
// reached the right state.

func TestTimeoutOfAProcessThatIgnoresTerm(t *testing.T) {
	m := newManager(t, func(l *limits) { l.killGrace = 50 * time.Millisecond })
	p := startPrinted(t, m, shell(t, `trap "" TERM; echo apart >&2; echo so far; sleep 300`), 7)
	p.expire()
	r := finish(t, p)
	if r.status.Reason != TimedOut || r.status.Signal != int(syscall.SIGKILL) {
		t.Errorf("got %+v", r.status)
	}
	if r.stdout.String() != "so far\n" || r.stderr.String() != "apart\n" {
		t.Errorf("output so far: %q, %q", &r.stdout, &r.stderr)
	}
}

func TestTimeoutOfAProcessThatExitsOnTerm(t *testing.T) {
	// The timeout waits for the process, not for the whole grace.
	m := newManager(t, func(l *limits) { l.killGrace = hung })
	p := startPrinted(t, m, shell(t, `trap "echo bye; exit 0" TERM; echo up; while :; do sleep 0.01; done`), 3)
	p.expire()
	r := finish(t, p)
	if r.status.Reason != TimedOut || r.status.Code != 0 || r.status.Signal != 0 || r.stdout.String() != "up\nbye\n" {
		t.Errorf("got %+v, %q", r.status, &r.stdout)
	}
}

func TestProcessThatEndsInTimeIsNotTimedOut(t *testing.T) {
	m := newManager(t)
	spec := shell(t, "exit 1")
	spec.Timeout = time.Hour
	if st := run(t, m, spec).status; st.Reason != Exited {
		t.Errorf("got %+v", st)
	}
}

// TestTimeoutEndsTheTree has descendants in the group, in their own sessions,
// orphaned, without the marker, and ignoring SIGTERM.
func TestTimeoutEndsTheTree(t *testing.T) {
	for name, child := range map[string]string{
		"in the group":           `sleep 300 & echo $! > $F`,
		"own session":            `setsid sh -c 'echo $$ > $F; exec sleep 300' &`,
		"own session, orphaned":  `(setsid sh -c 'echo $$ > $F; exec sleep 300' &)`,
		"without the marker":     `setsid env -i sh -c "echo \$\$ > $F; exec /bin/sleep 300" &`,
		"group, marker, no TERM": `(trap "" TERM; env -i sh -c "echo \$\$ > $F; exec /bin/sleep 300" &)`,
		"own session, no TERM":   `(setsid sh -c 'trap "" TERM; echo $$ > $F; sleep 300; sleep 300' &)`,
	} {
		t.Run(name, func(t *testing.T) {
			m := newManager(t, func(l *limits) { l.killGrace, l.drain = 100*time.Millisecond, hung })
			path := fifo(t)
			spec := shell(t, child+"\necho started; sleep 300")
			spec.Env = append(spec.Env, "F="+path)
			p := start(t, m, spec)
			pid := receivePID(t, path)
			eventually(t, "output", func() bool { n, _, _ := p.out.sizes(); return n == 8 })
			p.expire()
			r := finish(t, p)
			if r.status.Reason != TimedOut || r.stdout.String() != "started\n" || r.status.OutputOpen {
				t.Errorf("got %+v, %q", r.status, &r.stdout)
			}
			if isAlive(pid) {
				t.Errorf("the descendant %d is still alive", pid)
			}
		})
	}
}

func TestSignalReachesTheGroupAndProcessesThatLeftIt(t *testing.T) {
	m := newManager(t)
	child, ready, done := fifo(t), fifo(t), fifo(t)
	spec := shell(t, `
		setsid sh -c 'trap "echo child > $DONE; exit" USR1; echo > $CHILD; while :; do sleep 0.01; done' &
		trap "wait; exit 6" USR1; read -r up < $CHILD; echo > $READY; wait`)
	spec.Env = append(spec.Env, "CHILD="+child, "READY="+ready, "DONE="+done)
	p := start(t, m, spec)
	receive(t, ready)
	if err := p.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if got := receive(t, done); got != "child" {
		t.Errorf("got %q", got)
	}
	if st := finish(t, p).status; st.Reason != Exited || st.Code != 6 {
		t.Errorf("got %+v", st)
	}
}

func TestKillTakesTheTreeBeforeItReturns(t *testing.T) {
	m := newManager(t)
	path := fifo(t)
	spec := shell(t, `(setsid sh -c 'trap "" TERM; echo $$ > $F; sleep 300; sleep 300' &); sleep 300`)
	spec.Env = append(spec.Env, "F="+path)
	p := start(t, m, spec)
	pid := receivePID(t, path)
	if err := p.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if isAlive(pid) || isAlive(p.PID()) {
		t.Error("part of the tree is still alive")
	}
	if st := finish(t, p).status; st.Reason != Signalled || st.Signal != int(syscall.SIGKILL) || st.Code != 137 {
		t.Errorf("got %+v", st)
	}
}

func TestKillOutrunsATreeThatForks(t *testing.T) {
	m := newManager(t)
	path := fifo(t)
	// Each generation starts the next one in a new session, and ends.
	next := filepath.Join(t.TempDir(), "next")
	text := fmt.Sprintf("#!/bin/sh\nsetsid %s &\n", next)
	if err := os.WriteFile(next, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	p := start(t, m, shell(t, next+" & echo > "+path+"; sleep 300"))
	receive(t, path)
	if err := p.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if found, err := p.tree().members(func(member) {}); len(found) > 0 || err != nil {
		t.Errorf("alive: %+v, %v", found, err)
	}
	finish(t, p)
}

func TestKillEndsAStoppedProcess(t *testing.T) {
	m := newManager(t)
	spec := argv(t, "sleep", "300")
	p := start(t, m, spec)
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := p.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	finish(t, p)
}

func TestKillLeavesOthersAlone(t *testing.T) {
	m := newManager(t)
	path := fifo(t)
	other := start(t, m, shell(t, `read x < `+path+`; echo alive`))
	p := start(t, m, argv(t, "sleep", "300"))
	if err := p.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	finish(t, p)
	send(t, path)
	if r := finish(t, other); r.stdout.String() != "alive\n" {
		t.Errorf("got %q, %+v", &r.stdout, r.status)
	}
}

func TestSignalErrors(t *testing.T) {
	m := newManager(t)
	p := start(t, m, argv(t, "sleep", "300"))
	for _, sig := range []syscall.Signal{-1, 0, 65} {
		if err := p.Signal(sig); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("signal %d: got %v", sig, err)
		}
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	finish(t, p)
	if err := p.Signal(syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("got %v", err)
	}
}

func TestSignalSparesAPidThatWasReused(t *testing.T) {
	m := newManager(t)
	p := start(t, m, Spec{ID: newID(t), Argv: []string{"cat"}, Dir: "/", Env: []string{testPath}, Stdin: true})
	seen, err := m.proc.member(p.PID())
	if err != nil {
		t.Fatal(err)
	}
	seen.start--
	if err := m.proc.signal(seen, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := m.proc.signalByPid(seen, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.CloseStdin()
	if st := finish(t, p).status; st.Reason != Exited {
		t.Errorf("got %+v", st)
	}
}

func TestShutdownEndsAllTrees(t *testing.T) {
	m := newManager(t, func(l *limits) { l.killGrace = 100 * time.Millisecond })
	stubborn, left, outlived := fifo(t), fifo(t), fifo(t)
	var pids []int
	begin := func(script, path string) *Process {
		spec := shell(t, script)
		spec.Env = append(spec.Env, "F="+path)
		p := start(t, m, spec)
		pids = append(pids, receivePID(t, path))
		return p
	}
	a := begin(`trap "" TERM; echo $$ > $F; sleep 300; sleep 300`, stubborn)
	begin(`(setsid sh -c 'trap "" TERM; echo $$ > $F; sleep 300; sleep 300' &); sleep 300`, left)
	c := begin(`setsid sh -c 'echo $$ > $F; exec sleep 300' > /dev/null 2>&1 &`, outlived)
	finish(t, c)
	m.Shutdown(testContext(t))
	for _, pid := range pids {
		if isAlive(pid) {
			t.Errorf("%d lives", pid)
		}
	}
	if m.Running() != 0 {
		t.Errorf("%d run", m.Running())
	}
	if st := finish(t, a).status; st.Signal != int(syscall.SIGKILL) || st.Reason != Signalled {
		t.Errorf("the stubborn one: %+v", st)
	}
	if _, _, err := m.Start(t.Context(), argv(t, "true")); !errors.Is(err, ErrShutdown) {
		t.Errorf("a start after the shutdown: %v", err)
	}
}

func TestShutdownLetsProcessesEndByThemselves(t *testing.T) {
	m := newManager(t, func(l *limits) { l.killGrace = hung })
	p := startPrinted(t, m, shell(t, `trap "echo bye; exit 3" TERM; echo up; while :; do sleep 0.01; done`), 3)
	m.Shutdown(testContext(t))
	if r := finish(t, p); r.status.Code != 3 || r.status.Reason != Exited || r.stdout.String() != "up\nbye\n" {
		t.Errorf("got %+v, %q", r.status, &r.stdout)
	}
}

func TestShutdownCutsTheGraceShortWithItsContext(t *testing.T) {
	m := newManager(t, func(l *limits) { l.killGrace = hung })
	p := startPrinted(t, m, shell(t, `trap "" TERM; echo up; sleep 300`), 3)
	ctx, cancel := context.WithCancel(testContext(t))
	cancel()
	m.Shutdown(ctx)
	if st := finish(t, p).status; st.Signal != int(syscall.SIGKILL) {
		t.Errorf("got %+v", st)
	}
}
