package proc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// storms are programs that fork faster than a scan sees it. They end by themselves if
// this test is killed, but not before it gives up.
var storms = map[string]string{
	// Each of two hundred processes forks, leaves its session, and ends.
	"hoppers": `my $end = time + 150; for (1 .. 8) { fork }
		for (;;) { my $pid = fork; exit if $pid || time > $end; setsid if defined $pid }`,
	// All stay, each in a session of its own, until no more can be forked.
	"bomb": `my $end = time + 150;
		while (time < $end) { my $pid = fork; if (!defined $pid) { select undef, undef, undef, 0.01 } elsif (!$pid) { setsid } }`,
}

// stormEnds are what ends a storm: the script that starts it, and how it is ended then.
var stormEnds = map[string]struct {
	script string
	end    func(*Process) error
}{
	// The first process of a storm may end before the others do.
	"kill": {"exec perl -MPOSIX -e '%s'", func(p *Process) error {
		if err := p.Signal(syscall.SIGKILL); !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		return nil
	}},
	// A timeout is for a command that still runs.
	"timeout": {"perl -MPOSIX -e '%s' & exec sleep 300", func(p *Process) error {
		p.expire()
		ctx, cancel := context.WithTimeout(context.Background(), hung)
		defer cancel()
		st, err := p.Wait(ctx)
		if err == nil && st.Reason != TimedOut {
			err = fmt.Errorf("the storm ended with %+v", st)
		}
		return err
	}},
}

// A fork storm that leaves its group ends beside two busy loops, and calls go on.
func TestForkStormThatLeavesItsGroupEnds(t *testing.T) {
	storm := func(t *testing.T, name, end string, wrapper ...string) {
		t.Helper()
		cmd := inNamespace(helperCommand(t, "storm", wrapper...))
		cmd.Env = append(cmd.Env, "STORM="+name, "STORM_END="+end)
		t.Log(helperOutput(t, cmd))
	}
	for name := range storms {
		for end := range stormEnds {
			t.Run(name+", "+end, func(t *testing.T) {
				dir := testGroup(t, "pids", map[string]string{"pids.max": strconv.Itoa(bombLimit)})
				storm(t, name, end, inGroup(dir)...)
			})
			t.Run(name+", "+end+", not PID 1", func(t *testing.T) {
				needsScopes(t)
				dir := testGroup(t, "pids", map[string]string{"pids.max": strconv.Itoa(bombLimit)})
				storm(t, name, end, "sh", "-c",
					`mount --make-rprivate / && mount -t proc proc /proc && echo $$ > "$1/cgroup.procs" && "$2"; exit $?`, "sh", dir)
			})
		}
	}
}

// A freeze outside of PID 1 stops commands, and nothing else. It leaves stopped what was.
func TestFreezeStopsCommandsOnly(t *testing.T) {
	needsScopes(t)
	m := newManager(t)
	runs, sleeps := start(t, m, argv(t, "sleep", "300")), start(t, m, argv(t, "sleep", "300"))
	outside := start(t, newManagerOn(t, nil), argv(t, "sleep", "300"))
	if err := sleeps.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	awaitStopped := func(p *Process, want bool) {
		t.Helper()
		eventually(t, fmt.Sprintf("that %d is stopped: %v", p.pid, want), func() bool {
			a, err := m.proc.member(p.pid)
			return err == nil && a.alive() && a.stopped == want
		})
	}
	awaitStopped(sleeps, true)
	k := killing{tree: newTree(m.proc, m.log)}
	k.freeze()
	awaitStopped(runs, true)
	awaitStopped(outside, false)
	k.thaw()
	awaitStopped(runs, false)
	awaitStopped(sleeps, true)
}

func helpStorm() error {
	if err := prepare(); err != nil {
		return err
	}
	m := newAlone()
	defer m.Shutdown(context.Background())
	var beside []*Process
	for _, script := range []string{"while :; do :; done", "while :; do :; done", "exec sleep 300", "exec sleep 300"} {
		p, err := startScript(m, script)
		if err != nil {
			return err
		}
		beside = append(beside, p)
	}
	asleep := beside[3]
	if err := asleep.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	how := stormEnds[os.Getenv("STORM_END")]
	p, err := startScript(m, fmt.Sprintf(how.script, storms[os.Getenv("STORM")]))
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(hung); ; time.Sleep(time.Millisecond) {
		pids, err := m.proc.PIDs()
		if len(pids) > bombLimit/2 {
			break
		}
		if err != nil || time.Now().After(deadline) {
			return fmt.Errorf("there are %d processes (%v)", len(pids), err)
		}
	}
	took, err := callBeside(m, func() error { return how.end(p) })
	if err != nil || took > hung {
		return fmt.Errorf("after %v: %w", took, cmp.Or(err, errors.New("the storm may have ended by itself")))
	}
	if err := awaitCalm(m, len(beside), asleep.pid); err != nil {
		return err
	}
	if out, _, err := execute(m, "echo works"); err != nil || out != "works\n" {
		return fmt.Errorf("after the storm: %q, %v", out, err)
	}
	fmt.Println("ended in", took)
	return nil
}

// callBeside runs commands, one after the other, until the end of a storm returns and a last
// one has ended. It returns how long that took.
func callBeside(m *Manager, end func() error) (time.Duration, error) {
	begun, ended := time.Now(), make(chan error, 1)
	go func() { ended <- end() }()
	answered, refused, slowest := 0, 0, time.Duration(0)
	for {
		before := time.Now()
		out, st, err := execute(m, "echo works")
		slowest = max(slowest, time.Since(before))
		switch {
		case errors.Is(err, syscall.EAGAIN): // the storm has taken all processes
			refused++
		case err != nil || out != "works\n" || st.Reason != Exited:
			return time.Since(begun), fmt.Errorf("beside the storm: %q, %+v, %w", out, st, err)
		default:
			answered++
		}
		select {
		case err := <-ended:
			fmt.Printf("%d commands ran meanwhile, %d were refused, the slowest took %v; ", answered, refused, slowest)
			return time.Since(begun), err
		default:
		}
	}
}

// awaitCalm waits until this many processes run, and only one of them is stopped.
func awaitCalm(m *Manager, count, asleep int) error {
	for deadline := time.Now().Add(hung); ; time.Sleep(time.Millisecond) {
		all, err := m.proc.all()
		calm := err == nil && len(all) == count
		for _, a := range all {
			calm = calm && a.stopped == (a.pid == asleep)
		}
		if calm || time.Now().After(deadline) {
			return errors.Join(err, map[bool]error{false: fmt.Errorf("after the storm: %+v", all)}[calm])
		}
	}
}
