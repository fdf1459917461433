package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/cmd/podagent/internal/confine"
)

// hung is how long a test waits for something that must happen. Reaching it is a
// failure.
const hung = 2 * time.Minute

const testPath = "PATH=/usr/local/bin:/usr/bin:/bin"

// confined is the thread of all managers in the tests, with all that the kernel can do.
var confined = sync.OnceValue(func() *confine.Thread {
	thread, missing, err := confine.Start(confine.Auto, nil, nil)
	if err != nil {
		panic(err)
	}
	if missing != nil {
		fmt.Fprintln(os.Stderr, "the tests run without a part of the boundary:", missing)
	}
	return thread
})

// needsScopes fails the test if the kernel cannot keep commands from what is outside.
func needsScopes(t *testing.T) {
	t.Helper()
	if !confined().Has(confine.Domain | confine.Signals) {
		t.Fatal("this needs a kernel with Landlock's scopes")
	}
}

// newManager returns a manager that keeps journals in memory, with adapted limits.
func newManager(t testing.TB, adapt ...func(*limits)) *Manager {
	t.Helper()
	return newManagerOn(t, confined(), adapt...)
}

// newManagerOn returns a manager that starts processes on a thread.
func newManagerOn(t testing.TB, thread *confine.Thread, adapt ...func(*limits)) *Manager {
	t.Helper()
	m := NewManager(Options{Thread: thread})
	for _, f := range adapt {
		f(&m.lim)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), hung)
		defer cancel()
		m.Shutdown(ctx)
	})
	return m
}

// newAdopter returns a manager that adopts orphans, until the test ends.
func newAdopter(t testing.TB, adapt ...func(*limits)) *Manager {
	t.Helper()
	adopt := func(on uintptr) {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, on, 0, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	adopt(1)
	t.Cleanup(func() {
		adopt(0)
		eventually(t, "the end of all orphans", func() bool {
			for _, pid := range childPIDs(t) {
				reapPid(pid, unix.WNOHANG)
			}
			return len(childPIDs(t)) == 0
		})
	})
	m := newManager(t, adapt...)
	m.proc.adopts = true
	return m
}

// childPIDs are the children of the test's process.
func childPIDs(t testing.TB) (children []int) {
	t.Helper()
	table := &processTable{}
	pids, err := table.PIDs()
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		if m, err := table.member(pid); err == nil && m.parent == os.Getpid() {
			children = append(children, pid)
		}
	}
	return children
}

// newDiskManager returns a manager that keeps journals on disk, even if the
// directory is in memory.
func newDiskManager(t testing.TB, adapt ...func(*limits)) *Manager {
	t.Helper()
	m := newManager(t, adapt...)
	if err := m.budget.OpenAny(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	return m
}

type makeManager func(testing.TB, ...func(*limits)) *Manager

// overEach runs a test with a manager that keeps journals in memory, and with one
// that keeps them on disk.
func overEach(t *testing.T, test func(*testing.T, makeManager)) {
	t.Run("memory", func(t *testing.T) { test(t, newManager) })
	t.Run("disk", func(t *testing.T) { test(t, newDiskManager) })
}

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hung)
	t.Cleanup(cancel)
	return ctx
}

func newID(t testing.TB) string {
	t.Helper()
	id, err := uuid.NewV7()
	if err != nil {
		t.Fatal(err)
	}
	return id.String()
}

func idAt(t testing.TB, at time.Time) string {
	t.Helper()
	id, err := uuid.NewV7()
	if err != nil {
		t.Fatal(err)
	}
	ms := at.UnixMilli()
	for i := range 6 {
		id[i] = byte(ms >> (8 * (5 - i)))
	}
	return id.String()
}

// argv returns the spec of a command.
func argv(t testing.TB, args ...string) Spec {
	t.Helper()
	return Spec{ID: newID(t), Argv: args, Dir: "/", Env: []string{testPath}}
}

// shell returns the spec of a script for sh.
func shell(t testing.TB, script string) Spec {
	t.Helper()
	return argv(t, "sh", "-c", script)
}

func start(t testing.TB, m *Manager, spec Spec) *Process {
	t.Helper()
	p, started, err := m.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if !started {
		t.Fatal("Start attached to another process")
	}
	return p
}

type result struct {
	stdout, stderr bytes.Buffer
	omitted        [2]int64
	status         Status
}

// collect reads a process to its end from the given offsets, and checks that the
// events are contiguous.
func collect(ctx context.Context, p *Process, stdout, stderr int64) (*result, error) {
	r := &result{}
	next := [2]int64{stdout, stderr}
	ended := false
	for ev, err := range p.Attach(ctx, AttachOptions{Stdout: stdout, Stderr: stderr}) {
		if err != nil {
			return r, err
		}
		if ended {
			return r, errors.New("an event followed the status")
		}
		if ev.Status != nil {
			r.status, ended = *ev.Status, true
			continue
		}
		i := ev.Stream - Stdout
		if ev.Offset != next[i]+ev.Omitted {
			return r, errors.New("an event does not follow the last one")
		}
		next[i] = ev.Offset + int64(len(ev.Data))
		r.omitted[i] += ev.Omitted
		[]*bytes.Buffer{&r.stdout, &r.stderr}[i].Write(ev.Data)
	}
	if !ended {
		return r, io.ErrUnexpectedEOF
	}
	return r, nil
}

func run(t testing.TB, m *Manager, spec Spec) *result {
	t.Helper()
	return finish(t, start(t, m, spec))
}

func finish(t testing.TB, p *Process) *result {
	t.Helper()
	r, err := collect(testContext(t), p, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// fifo makes a named pipe through which a process and the test wait for each other.
func fifo(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// receive reads what a process writes into a fifo.
func receive(t testing.TB, path string) string {
	t.Helper()
	type answer struct {
		b   []byte
		err error
	}
	c := make(chan answer, 1)
	go func() {
		b, err := os.ReadFile(path)
		c <- answer{b, err}
	}()
	select {
	case a := <-c:
		if a.err != nil {
			t.Fatal(a.err)
		}
		return strings.TrimSpace(string(a.b))
	case <-time.After(hung):
		t.Fatalf("nothing arrived through %s", path)
		return ""
	}
}

func receivePID(t testing.TB, path string) int {
	t.Helper()
	pid, err := strconv.Atoi(receive(t, path))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// send lets a process that reads from a fifo continue.
func send(t testing.TB, path string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
}

// isAlive reports whether a process runs. A zombie does not count.
func isAlive(pid int) bool {
	m, err := new(processTable).member(pid)
	return err == nil && m.alive()
}

func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(hung); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not happen", what)
		}
	}
}
