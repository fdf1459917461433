package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
)

// helpLimit prints a process's limit of open files.
func helpLimit() error {
	m := NewManager(Options{})
	out, st, err := execute(m, "ulimit -Sn")
	if err == nil && st.Code == 0 {
		fmt.Print(out)
	}
	return err
}

// The Go runtime raises the agent's own limit.
func TestLimitOfFilesIsTheOneTheAgentWasStartedWith(t *testing.T) {
	cmd := helperCommand(t, "limit", "sh", "-c", `ulimit -Sn 123; exec "$0"`)
	if got := helperOutput(t, cmd); got != "123" {
		t.Errorf("got %q", got)
	}
}

// execute runs a script outside of a test.
func execute(m *Manager, script string) (string, Status, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", Status{}, err
	}
	p, _, err := m.Start(context.Background(), Spec{ID: id.String(), Argv: []string{"sh", "-c", script}, Dir: "/", Env: []string{testPath}})
	if err != nil {
		return "", Status{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), hung)
	defer cancel()
	r, err := collect(ctx, p, 0, 0)
	return r.stdout.String(), r.status, err
}

// prepare mounts /proc for PID 1's own namespace.
func prepare() error {
	if os.Getpid() != 1 {
		return nil
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("cannot make the mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("cannot mount /proc: %w", err)
	}
	return nil
}

// helpOrphans makes 10,000 orphans during 1,000 execs, and prints what is left.
func helpOrphans() error {
	if err := prepare(); err != nil {
		return err
	}
	m := newAlone()
	failed := make(chan error, 1000)
	var all sync.WaitGroup
	places := make(chan struct{}, 64)
	for i := range 1000 {
		places <- struct{}{}
		all.Go(func() {
			if err := makeOrphans(m, i); err != nil {
				failed <- err
			}
			<-places
		})
	}
	all.Wait()
	close(failed)
	for err := range failed {
		return err
	}
	fmt.Println("reaped")
	return awaitChildren(m, 0, 0)
}

// makeOrphans runs one exec that makes ten orphans. Children that end at once fork
// them, and some lead their own session. Each exec has its own exit code.
func makeOrphans(m *Manager, i int) error {
	orphan := "(: &)"
	if i%10 == 0 {
		orphan = "(setsid true &)"
	}
	code := i % 251
	_, st, err := execute(m, strings.Repeat(orphan+"; ", 10)+fmt.Sprintf("exit %d", code))
	if err == nil && (st.Reason != Exited || st.Code != code) {
		err = fmt.Errorf("exec %d ended with %+v", i, st)
	}
	return err
}

// awaitChildren waits for the given numbers of children and zombies.
func awaitChildren(m *Manager, children, zombies int) error {
	for deadline := time.Now().Add(hung); ; time.Sleep(time.Millisecond) {
		c, z, err := countChildren(m.proc)
		if err != nil || c == children && z == zombies {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("there are %d children, %d of them zombies", c, z)
		}
	}
}

func countChildren(table *processTable) (children, zombies int, err error) {
	pids, err := table.PIDs()
	for _, pid := range pids {
		m, err := table.member(pid)
		if err != nil || m.parent != os.Getpid() {
			continue
		}
		children++
		if !m.alive() {
			zombies++
		}
	}
	return children, zombies, err
}

func TestOrphansAreReapedAndNoStatusIsStolen(t *testing.T) {
	t.Run("as PID 1", func(t *testing.T) {
		if got := helperOutput(t, inNamespace(helperCommand(t, "orphans"))); got != "reaped" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("as a subreaper", func(t *testing.T) {
		if got := helperOutput(t, helperCommand(t, "orphans")); got != "reaped" {
			t.Errorf("got %q", got)
		}
	})
}

// Orphans are reaped even if an owner is slow to collect a status.
func TestOrphanBehindAStatusThatIsNotTaken(t *testing.T) {
	if got := helperOutput(t, inNamespace(helperCommand(t, "behind"))); got != "reaped" {
		t.Errorf("got %q", got)
	}
}

func helpBehind() error {
	if err := prepare(); err != nil {
		return err
	}
	m := newAlone()
	id, _ := uuid.NewV7()
	p, _, err := m.Start(context.Background(), Spec{ID: id.String(), Argv: []string{"sleep", "300"}, Dir: "/", Env: []string{testPath}})
	if err != nil || !p.pin() {
		return errors.Join(err, errors.New("it ended"))
	}
	unix.Kill(p.pid, unix.SIGTERM)
	if _, _, err := execute(m, "(: &); (: &)"); err != nil {
		return err
	}
	if err := awaitChildren(m, 1, 1); err != nil {
		return err
	}
	p.unpin()
	st, err := p.Wait(context.Background())
	if err != nil || st.Signal != int(unix.SIGTERM) {
		return fmt.Errorf("got %+v, %w", st, err)
	}
	fmt.Println("reaped")
	return nil
}

// helpTerm is an agent that has started a process tree that ignores TERM, and
// orphans that it knows nothing of. It stops at TERM, and prints how many processes
// are left.
func helpTerm() error {
	if err := prepare(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	m := newAlone()
	m.lim.killGrace = hung
	id, _ := uuid.NewV7()
	script := `(env -i setsid sh -c 'trap "echo obeyed > $0; exit" TERM; echo; while :; do /bin/sleep 0.01; done' "$F" &)
		trap "" TERM
		setsid sh -c 'trap "" TERM; sleep 300; sleep 300' &
		(env -i setsid sh -c 'trap "" TERM; /bin/sleep 300; /bin/sleep 300' > /dev/null 2>&1 &)
		sleep 300; sleep 300`
	spec := Spec{ID: id.String(), Argv: []string{"sh", "-c", script}, Dir: "/", Env: []string{testPath, "F=" + os.Getenv("F")}}
	p, _, err := m.Start(context.Background(), spec)
	if err != nil {
		return err
	}
	for ev, err := range p.Attach(ctx, AttachOptions{}) {
		if err != nil || len(ev.Data) > 0 {
			break // the trap is set now
		}
	}
	fmt.Println("up")
	<-ctx.Done()
	m.Shutdown(untilWritten(os.Getenv("F")))
	children, zombies, err := countChildren(m.proc)
	fmt.Println(children - zombies)
	return err
}

// untilWritten returns a context that ends when a line is in a file.
func untilWritten(path string) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		for text, _ := os.ReadFile(path); !bytes.HasSuffix(text, []byte("\n")); text, _ = os.ReadFile(path) {
			time.Sleep(time.Millisecond)
		}
	}()
	return ctx
}

func TestTermEndsAllBelowTheAgent(t *testing.T) {
	t.Run("as PID 1", func(t *testing.T) { checkTerm(t, inNamespace(helperCommand(t, "term"))) })
	t.Run("as a subreaper", func(t *testing.T) { checkTerm(t, helperCommand(t, "term")) })
}

func checkTerm(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	obeyed := t.TempDir() + "/obeyed"
	cmd.Env = append(cmd.Env, "F="+obeyed)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var up string
	if _, err := fmt.Fscan(out, &up); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	left := -1
	if _, err := fmt.Fscan(out, &left); err != nil || left != 0 {
		t.Errorf("%d processes are left (%v)", left, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(obeyed); err != nil || string(b) != "obeyed\n" {
		t.Errorf("the orphan got no TERM: %q, %v", b, err)
	}
}

func TestIgnoredSignalIsDroppedUntilItIsHeardAgain(t *testing.T) {
	got := make(chan os.Signal, 2)
	signal.Notify(got, unix.SIGWINCH, unix.SIGPWR) // the runtime hands out the lower number first
	defer signal.Stop(got)
	hear := ignoreSignal(unix.SIGWINCH)
	if first := firstSignal(t, got, unix.SIGWINCH, unix.SIGPWR); first != unix.SIGPWR {
		t.Errorf("got %v while it is ignored", first)
	}
	hear()
	if first := firstSignal(t, got, unix.SIGWINCH); first != unix.SIGWINCH {
		t.Errorf("got %v", first)
	}
}

// firstSignal sends signals to this program, and returns the first that it gets.
func firstSignal(t *testing.T, got <-chan os.Signal, signals ...unix.Signal) os.Signal {
	t.Helper()
	for _, sig := range signals {
		if err := unix.Kill(os.Getpid(), sig); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case first := <-got:
		return first
	case <-time.After(hung):
		t.Fatalf("none of %v has come", signals)
		return nil
	}
}
