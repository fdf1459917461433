package proc

import (
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// takeDescriptors uses up the descriptors of the test's process until release is
// called.
func takeDescriptors(t *testing.T) (release func()) {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	few := old
	few.Cur = min(old.Cur, 1000)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	var taken []int
	fd, err := unix.Open(os.DevNull, unix.O_CLOEXEC, 0)
	for ; err == nil; fd, err = unix.Open(os.DevNull, unix.O_CLOEXEC, 0) {
		taken = append(taken, fd)
	}
	if !errors.Is(err, unix.EMFILE) {
		t.Fatal(err)
	}
	return func() {
		for _, fd := range taken {
			unix.Close(fd)
		}
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
			t.Error(err)
		}
	}
}

// escaped starts a tree with a process that can be found only through its parent:
// it has its own session and no marker. The parent ignores SIGTERM, and says so by handing on
// the process's id.
func escaped(t *testing.T, m *Manager) (p *Process, pid int) {
	t.Helper()
	ready, path := fifo(t), fifo(t)
	spec := shell(t, `setsid env -i sh -c "echo \$\$ > $READY; exec /bin/sleep 300" & trap "" TERM; read -r pid < $READY; echo $pid > $F; sleep 300; sleep 300`)
	spec.Env = append(spec.Env, "READY="+ready, "F="+path)
	p = start(t, m, spec)
	return p, receivePID(t, path)
}

func TestKillTakesTheTreeWithoutDescriptors(t *testing.T) {
	m := newManager(t)
	p, pid := escaped(t, m)
	release := takeDescriptors(t)
	err := p.Signal(syscall.SIGKILL)
	release()
	if err != nil {
		t.Error(err)
	}
	if isAlive(pid) || isAlive(p.PID()) {
		t.Error("part of the tree is still alive")
	}
}

func TestTimeoutEndsTheTreeWithoutDescriptors(t *testing.T) {
	m := newManager(t, func(l *limits) { l.killGrace = 10 * time.Millisecond })
	p, pid := escaped(t, m)
	release := takeDescriptors(t)
	p.expire()
	release()
	if isAlive(pid) || isAlive(p.PID()) {
		t.Error("some of the tree lives")
	}
	if st := finish(t, p).status; st.Reason != TimedOut {
		t.Errorf("got %+v", st)
	}
}

func TestSignalReachesTheWholeTreeWithoutDescriptors(t *testing.T) {
	m := newManager(t)
	p, pid := escaped(t, m)
	release := takeDescriptors(t)
	err := p.Signal(syscall.SIGTERM)
	release()
	if err != nil {
		t.Error(err)
	}
	eventually(t, "the end of the descendant", func() bool { return !isAlive(pid) })
}

// TestSignalSaysThatItCouldNotLook uses up the spare descriptor, too.
func TestSignalSaysThatItCouldNotLook(t *testing.T) {
	m := newManager(t)
	p, pid := escaped(t, m)
	m.proc.Close()
	release := takeDescriptors(t)
	term := p.Signal(syscall.SIGTERM)
	kill := p.Signal(syscall.SIGKILL)
	release()
	for _, err := range []error{term, kill} {
		if !errors.Is(err, syscall.EMFILE) {
			t.Errorf("got %v", err)
		}
	}
	if st := finish(t, p).status; st.Signal != int(syscall.SIGKILL) {
		t.Errorf("got %+v", st)
	}
	syscall.Kill(pid, syscall.SIGKILL)
}

// TestKillSaysWhoIsLeft has a process that the agent may not signal.
func TestKillSaysWhoIsLeft(t *testing.T) {
	m := newManager(t)
	p := start(t, m, argv(t, "sleep", "300"))
	seen, err := m.proc.member(p.PID())
	if err != nil {
		t.Fatal(err)
	}
	k := killing{tree: p.tree(), stopped: map[int]uint64{seen.pid: seen.start}, immune: map[int]error{seen.pid: syscall.EPERM}}
	if err := k.scans(); err != nil || !errors.Is(k.left, syscall.EPERM) {
		t.Errorf("got %v, %v", err, k.left)
	}
	if err := p.Signal(syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	finish(t, p)
}
