package proc

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/cmd/podagent/internal/proc/spawn"
)

// lowerLocks and lowerBoth blur a mark, so that it may be that of two execs before, and of two after. A mark that may
// be anybody's would make a launcher take its process for one of any local sandbox that it ends meanwhile.
const (
	lowerLocks = `ulimit -x \$((\$(ulimit -x) - (2 << 40)))`
	lowerBoth  = lowerLocks + `; ulimit -R \$((\$(ulimit -R) - (2 << 40)))`
)

// escapees are scripts whose first child leaves its session, its parents and its
// environment. It writes its pid to the FIFO $F, and runs for five minutes.
func escapees() map[string]string {
	const last = `echo \$\$ > $F; exec /bin/sleep 300`
	return map[string]string{
		"setsid env -i":       `setsid -f env -i sh -c "` + last + `"`,
		"double fork":         `(setsid sh -c "(env -i setsid sh -c '` + last + `' &) &" &)`,
		"lowers one limit":    `setsid -f env -i bash -c "` + lowerLocks + `; ` + last + `"`,
		"lowers both":         `setsid -f env -i bash -c "` + lowerBoth + `; ` + last + `"`,
		"has no first thread": `setsid -f env -i ` + helperEnv + `=headless F=$F ` + os.Args[0],
	}
}

// helpHeadless ends the first thread of the process, which the kernel then shows as a
// zombie, and runs on.
func helpHeadless() error {
	path := os.Getenv("F")
	go func() {
		for !new(processTable).looksEnded(os.Getpid()) {
			time.Sleep(time.Millisecond)
		}
		os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())+"\n"), 0)
		time.Sleep(5 * time.Minute)
		os.Exit(0)
	}()
	headless <- true
	select {}
}

// looksEnded reports whether the first thread of a process has ended.
func (t *processTable) looksEnded(pid int) bool {
	s, err := t.Stat(pid)
	return err == nil && s.State == 'Z'
}

// startEscapee starts an exec whose child escapes, and returns the child's pid.
func startEscapee(t *testing.T, m *Manager, script string) (*Process, int) {
	t.Helper()
	path := fifo(t)
	spec := shell(t, script+"\nexec 1>&- 2>&-; sleep 300; sleep 300")
	spec.Env = append(spec.Env, "F="+path)
	p := start(t, m, spec)
	pid := receivePID(t, path)
	t.Cleanup(func() { syscall.Kill(pid, syscall.SIGKILL) })
	return p, pid
}

func TestEscapeeEndsWithKill(t *testing.T) {
	for name, script := range escapees() {
		t.Run(name, func(t *testing.T) {
			m := newAdopter(t)
			other := start(t, m, argv(t, "sleep", "300"))
			p, pid := startEscapee(t, m, script)
			if err := p.Signal(syscall.SIGKILL); err != nil {
				t.Error(err)
			}
			finish(t, p)
			if isAlive(pid) {
				t.Error("it is still alive")
			}
			if !other.running() {
				t.Error("another exec has ended")
			}
		})
	}
}

func TestEscapeeEndsWithTheTimeout(t *testing.T) {
	for name, script := range escapees() {
		t.Run(name, func(t *testing.T) {
			m := newAdopter(t, func(l *limits) { l.killGrace = 10 * time.Millisecond })
			p, pid := startEscapee(t, m, script)
			p.expire()
			if st := finish(t, p).status; st.Reason != TimedOut || isAlive(pid) {
				t.Errorf("got %+v; the escapee is alive: %v", st, isAlive(pid))
			}
		})
	}
}

// The exec has ended long before.
func TestEscapeeEndsWithALaterKill(t *testing.T) {
	m := newAdopter(t)
	path := fifo(t)
	spec := shell(t, escapees()["double fork"])
	spec.Env = append(spec.Env, "F="+path)
	p := start(t, m, spec)
	pid := receivePID(t, path)
	finish(t, p)
	if count, atLarge, err := m.Strays(); count != 0 || atLarge != 0 || err != nil {
		t.Errorf("what a known exec left counts as %d strays, %d at large (%v)", count, atLarge, err)
	}
	if err := p.Signal(syscall.SIGKILL); err != nil || isAlive(pid) {
		t.Errorf("%v; it is alive: %v", err, isAlive(pid))
	}
}

// A process that blurs its mark while its parents live still belongs to its own exec
// alone.
func TestBlurredMarkIsNoReasonToDieWithAnotherExec(t *testing.T) {
	m := newAdopter(t)
	others := []*Process{start(t, m, argv(t, "sleep", "300")), nil}
	path := fifo(t)
	spec := shell(t, `setsid bash -c "`+lowerBoth+`; echo \$\$ > $F; exec sleep 300" & wait $!`)
	spec.Env = append(spec.Env, "F="+path)
	p := start(t, m, spec)
	pid := receivePID(t, path)
	others[1] = start(t, m, argv(t, "sleep", "300"))
	for _, other := range others {
		if err := other.Signal(syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	}
	if !isAlive(pid) {
		t.Fatalf("it has ended, and its exec with %+v", finish(t, p).status)
	}
	if err := p.Signal(syscall.SIGKILL); err != nil || isAlive(pid) {
		t.Errorf("%v; it is alive: %v", err, isAlive(pid))
	}
}

// A process with a blurred mark may belong to any agent. One that adopts no orphans leaves
// it alone.
func TestBlurredMarkIsNoReasonToDieWithAnExecOfAnotherAgent(t *testing.T) {
	path := fifo(t)
	cmd := exec.CommandContext(t.Context(), "bash", "-c", "ulimit -x 1000; ulimit -R 1000000; echo $$ > "+path+"; exec sleep 300")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := receivePID(t, path)
	p := start(t, newManager(t), argv(t, "sleep", "300"))
	if err := p.Signal(syscall.SIGKILL); err != nil || !isAlive(pid) {
		t.Errorf("%v; it is alive: %v", err, isAlive(pid))
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // killed
}

// Agents give numbers out on their own, so two may give the same one.
func TestExecOfAnotherAgentWithTheSameMarkLives(t *testing.T) {
	m, other := newManager(t), newManager(t)
	p := start(t, other, argv(t, "sleep", "300"))
	m.proc.marks.last = p.mark - 1
	q := start(t, m, argv(t, "sleep", "300"))
	if q.mark != p.mark {
		t.Fatalf("their marks are %d and %d", p.mark, q.mark)
	}
	if err := q.Signal(syscall.SIGKILL); err != nil || !isAlive(p.PID()) {
		t.Errorf("%v; the other agent's is alive: %v", err, isAlive(p.PID()))
	}
}

func TestStraysAreCountedAndEnd(t *testing.T) {
	m := newAdopter(t)
	step := m.proc.marks.step
	m.proc.marks.step = 0 // without a mark, as when a privileged process removes its own
	p, pid := startEscapee(t, m, `mkfifo $F.left; setsid -f env -i sh -c "echo \$\$ > $F.left; exec /bin/sleep 300"
		read -r pid < $F.left; echo $pid > $F`) // by then it has no parent of the exec
	m.proc.marks.step = step
	if count, atLarge, err := m.Strays(); count != 1 || atLarge != 1 || err != nil {
		t.Errorf("there are %d strays, %d at large (%v)", count, atLarge, err)
	}
	if err := p.Signal(syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	finish(t, p)
	if !isAlive(pid) {
		t.Fatal("it has ended with its exec, without a mark")
	}
	trees, err := m.guard.trees()
	if err != nil || trees[""] == nil || trees[""].size == 0 {
		t.Errorf("the guard sees %+v (%v)", trees[""], err)
	}
	if count, err := m.KillStrays(); count != 1 || err != nil || isAlive(pid) {
		t.Errorf("%d ended (%v); it is alive: %v", count, err, isAlive(pid))
	}
	if count, _, err := m.Strays(); count != 0 || err != nil {
		t.Errorf("there are %d strays (%v)", count, err)
	}
}

// What a forgotten exec left is a stray that says that it was left, and so does not keep a
// sandbox from being idle.
func TestLeftoverOfAForgottenExecIsNotAtLarge(t *testing.T) {
	m := newAdopter(t)
	path := fifo(t)
	spec := shell(t, `setsid sh -c 'echo $$ > $F; exec sleep 300' > /dev/null 2>&1 &`)
	spec.Env = append(spec.Env, "F="+path)
	p := start(t, m, spec)
	pid := receivePID(t, path)
	finish(t, p)
	if err := m.Forget(p.id); err != nil {
		t.Fatal(err)
	}
	if count, atLarge, err := m.Strays(); count != 1 || atLarge != 0 || err != nil {
		t.Errorf("there are %d strays, %d at large (%v)", count, atLarge, err)
	}
	if count, err := m.KillStrays(); count != 1 || err != nil || isAlive(pid) {
		t.Errorf("%d ended (%v); it is alive: %v", count, err, isAlive(pid))
	}
}

func TestStartsUnderWayAreNoStrays(t *testing.T) {
	m := newAdopter(t)
	over := make(chan struct{})
	go func() {
		defer close(over)
		for range 100 {
			p, _, err := m.Start(t.Context(), shell(t, ":"))
			if err != nil {
				t.Error(err)
				return
			}
			if st, err := p.Wait(testContext(t)); err != nil || st.Code != 0 {
				t.Errorf("a start beside the killing of strays ended with %+v, %v", st, err)
			}
		}
	}()
	for running := true; running; {
		if n, err := m.KillStrays(); n != 0 || err != nil {
			t.Errorf("%d strays have ended (%v)", n, err)
		}
		select {
		case <-over:
			running = false
		default:
		}
	}
}

func TestMarksAreReadAsTheyWereSet(t *testing.T) {
	var m marks
	m.open()
	if m.step == 0 {
		t.Fatal("the limits of the test have no room for marks")
	}
	for _, n := range []int{1, 2, 777, markNumbers} {
		mark := m.limits(n)
		if got := m.read(mark); got != (lineage{n, n}) {
			t.Errorf("%d: read is %+v", n, got)
		}
		// An agent within the exec marks its own, which belong to the exec.
		inner := marks{locks: mark.locks, rttime: mark.rttime, step: m.step >> markDepth}
		for _, i := range []int{1, markNumbers} {
			if got := m.read(inner.limits(i)); got != (lineage{n, n}) {
				t.Errorf("%d in %d: read is %+v", i, n, got)
			}
			if got := inner.read(inner.limits(i)); got != (lineage{i, i}) {
				t.Errorf("%d in %d: the inner agent reads %+v", i, n, got)
			}
		}
		lower := markLimits{mark.locks - 3*m.step, mark.rttime - 5*m.step}
		if got := m.read(lower); !got.has(n) || !got.blurred() && n > 1 && n < markNumbers {
			t.Errorf("%d: blurred is %+v", n, got)
		}
		if got := m.read(markLimits{}); got != (lineage{1, markNumbers}) {
			t.Errorf("without limits: %+v", got)
		}
	}
	if got := m.read(markLimits{m.locks, m.rttime}); got != noLineage {
		t.Errorf("without a mark: %+v", got)
	}
}

func TestLimitsThatBearAMarkAreLeftOut(t *testing.T) {
	m := marks{rising: unix.RLIMIT_RSS, falling: unix.RLIMIT_NPROC} // gVisor's
	got := m.leave([]spawn.Limit{{Resource: unix.RLIMIT_NPROC}, {Resource: unix.RLIMIT_NOFILE}, {Resource: unix.RLIMIT_RSS}})
	if len(got) != 1 || got[0].Resource != unix.RLIMIT_NOFILE {
		t.Errorf("what is left is %+v", got)
	}
}

// helpNested is an agent that kills an escapee of its own.
func helpNested() error {
	m := newAlone()
	if m.proc.marks.step != 1<<markDepth {
		return fmt.Errorf("the step of the inner agent is %d", m.proc.marks.step)
	}
	p, err := startScript(m, "setsid -f env -i /bin/sleep 300; exec sleep 300")
	if err != nil {
		return err
	}
	left := func() (n int) {
		all, _ := m.proc.all()
		for _, a := range all {
			if a.lineage.has(p.mark) {
				n++
			}
		}
		return n
	}
	for deadline := time.Now().Add(hung); left() != 2; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("%d processes bear the mark", left())
		}
	}
	if err := p.Signal(syscall.SIGKILL); err != nil || left() != 0 {
		return fmt.Errorf("%d processes are left (%v)", left(), err)
	}
	fmt.Println("ended")
	return nil
}

// The last number is followed by the first that is free.
func TestNumbersComeAgainWhenNobodyHasThem(t *testing.T) {
	m := newAdopter(t)
	m.proc.marks.last = 0
	first := start(t, m, argv(t, "sleep", "300"))
	p := start(t, m, shell(t, "setsid sleep 300 > /dev/null 2>&1 &"))
	finish(t, p)
	if err := m.Forget(p.id); err != nil {
		t.Fatal(err)
	}
	if first.mark != 1 || p.mark != 2 {
		t.Fatalf("the numbers are %d, %d", first.mark, p.mark)
	}
	m.proc.marks.last = markNumbers
	if next := start(t, m, argv(t, "sleep", "300")); next.mark != 3 {
		t.Errorf("the next number is %d", next.mark)
	}
	if _, err := m.KillStrays(); err != nil {
		t.Error(err)
	}
}

// A program within an exec is an agent itself.
func TestAgentWithinAnExecHasMarksOfItsOwn(t *testing.T) {
	m := newAdopter(t)
	spec := argv(t, os.Args[0])
	spec.Env = append(spec.Env, helperEnv+"=nested")
	r := run(t, m, spec)
	if got := strings.TrimSpace(r.stdout.String()); got != "ended" || r.status.Code != 0 {
		t.Errorf("got %q, %q, %+v", got, &r.stderr, r.status)
	}
}
