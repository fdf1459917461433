package proc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
)

// testGroup makes a control group for a controller, with limits, and returns its
// directory. At the end of the test it kills everything in it.
func testGroup(t *testing.T, controller string, limits map[string]string) string {
	t.Helper()
	parent, first := filepath.Join("/sys/fs/cgroup", controller), map[string]string{"memory.max": "memory.limit_in_bytes"}
	if _, err := os.Stat(parent); err != nil {
		parent, first = "/sys/fs/cgroup", nil // version 2
		err := os.WriteFile(filepath.Join(parent, "cgroup.subtree_control"), []byte("+"+controller), 0)
		if err != nil {
			t.Fatalf("this test needs its own control group for %s, and root: %v", controller, err)
		}
	}
	dir := filepath.Join(parent, fmt.Sprintf("podagent-test-%d-%s", os.Getpid(), controller))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatalf("this test needs a control group of its own for %s, and root: %v", controller, err)
	}
	t.Cleanup(func() { removeGroup(t, dir) })
	for name, text := range limits {
		if err := os.WriteFile(filepath.Join(dir, cmp.Or(first[name], name)), []byte(text), 0); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func removeGroup(t *testing.T, dir string) {
	os.WriteFile(filepath.Join(dir, "pids.max"), []byte("0"), 0) // no more forks
	eventually(t, "that the control group is empty", func() bool {
		for _, pid := range groupMembers(dir) {
			unix.Kill(pid, unix.SIGKILL)
		}
		return os.Remove(dir) == nil
	})
}

func groupMembers(dir string) []int {
	b, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	var pids []int
	for field := range strings.FieldsSeq(string(b)) {
		if pid, err := strconv.Atoi(field); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// inGroup is the wrapper that runs a helper in a control group.
func inGroup(dir string) []string {
	return []string{"sh", "-c", `echo $$ > "$1/cgroup.procs" && exec "$2"`, "sh", dir}
}

// startScript starts a bash script outside of a test.
func startScript(m *Manager, script string) (*Process, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	p, _, err := m.Start(context.Background(), Spec{ID: id.String(), Script: script, Dir: "/", Env: []string{testPath}})
	return p, err
}

const bombLimit = 300

// TestForkBomb runs an agent in a small sandbox in which a fork bomb uses up the
// process limit.
func TestForkBomb(t *testing.T) {
	dir := testGroup(t, "pids", map[string]string{"pids.max": strconv.Itoa(bombLimit)})
	cmd := helperCommand(t, "bomb", inGroup(dir)...)
	cmd.Dir = t.TempDir()
	if got := helperOutput(t, cmd); got != "all is well" {
		t.Errorf("got %q", got)
	}
}

func helpBomb() error {
	m := newAlone()
	defer m.Shutdown(context.Background())
	if m.cgroup.ProcessMax != bombLimit {
		return fmt.Errorf("the process limit seems to be %d", m.cgroup.ProcessMax)
	}
	const bomb = "exec 2> /dev/null; b() { [ $SECONDS -lt 300 ] && b | b & }; b; " // it ends by itself if this test is killed
	if st, err := survive(m, bomb+"exec sleep 300"); err != nil || !st.ProcessLimit || st.Reason != Signalled {
		return fmt.Errorf("the bomb ended with %+v, %w", st, err)
	}
	// The first process of this bomb ends early.
	if st, err := survive(m, bomb); err != nil || st.Reason != Exited {
		return fmt.Errorf("the bomb ended with %+v, %w", st, err)
	}
	fmt.Println("all is well")
	return nil
}

// survive starts a bomb, works during it, ends it, and works again.
func survive(m *Manager, bomb string) (Status, error) {
	p, err := startScript(m, bomb)
	if err != nil {
		return Status{}, err
	}
	if err := errors.Join(awaitRefusal(m), workDuringBomb(m)); err != nil {
		return Status{}, err
	}
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return Status{}, fmt.Errorf("cannot end the bomb: %w", err)
	}
	out, st, err := execute(m, "echo works again")
	if err != nil || out != "works again\n" || st.ProcessLimit {
		return Status{}, fmt.Errorf("after the bomb: %q, %+v, %w", out, st, err)
	}
	return p.Wait(context.Background())
}

// awaitRefusal starts processes until one is refused.
func awaitRefusal(m *Manager) error {
	for deadline := time.Now().Add(hung); time.Now().Before(deadline); {
		_, err := startScript(m, ":")
		if errors.Is(err, syscall.EAGAIN) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return errors.New("no start was refused")
}

// workDuringBomb does an agent's work for 32 callers, and checks afterwards that
// the bomb still uses up the limit.
func workDuringBomb(m *Manager) error {
	failed := make(chan error, 32)
	var callers sync.WaitGroup
	for i := range 32 {
		callers.Go(func() {
			for range 50 {
				if err := oneCall(m, fmt.Sprintf("file%d", i)); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	callers.Wait()
	close(failed)
	for err := range failed {
		return err
	}
	return awaitRefusal(m)
}

func oneCall(m *Manager, name string) error {
	text := strings.Repeat(name, 100000)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		return err
	}
	b, err := os.ReadFile(name)
	if err != nil || string(b) != text {
		return fmt.Errorf("cannot read %d bytes: %w", len(text), err)
	}
	if len(m.List()) == 0 {
		return errors.New("nothing is listed")
	}
	return os.Remove(name)
}

// TestMemoryHog runs an agent in a small sandbox in which a process uses up the
// memory.
func TestMemoryHog(t *testing.T) {
	const limit = 256 << 20
	dir := testGroup(t, "memory", map[string]string{"memory.max": strconv.Itoa(limit)})
	for _, guarded := range []string{"the guard", "the kernel"} {
		cmd := helperCommand(t, "hog", inGroup(dir)...)
		cmd.Env = append(cmd.Env, "FIRST="+guarded)
		if got := helperOutput(t, cmd); got != "all is well" {
			t.Errorf("%s: got %q", guarded, got)
		}
	}
}

func helpHog() error {
	m := newAlone()
	defer m.Shutdown(context.Background())
	if len(m.cgroup.Memory) == 0 {
		return errors.New("no memory limit was found")
	}
	if os.Getenv("FIRST") == "the kernel" {
		m.guard.close()
	}
	other, err := startScript(m, "exec sleep 300")
	if err != nil {
		return err
	}
	for _, script := range []string{"exec tail /dev/zero", "tail /dev/zero; exit $?", "(tail /dev/zero & wait $!) | cat; exit ${PIPESTATUS[0]}"} {
		_, st, err := executeScript(m, script)
		if err != nil || st.Reason != OutOfMemory || st.Code != 137 {
			return fmt.Errorf("%s ended with %+v, %w", script, st, err)
		}
	}
	if out, st, err := execute(m, "echo works; exit 137"); err != nil || out != "works\n" || st.Reason != Exited {
		return fmt.Errorf("after the hogs: %q, %+v, %w", out, st, err)
	}
	if !other.running() {
		return errors.New("another exec was ended")
	}
	fmt.Println("all is well")
	return nil
}

// executeScript is execute for a bash script.
func executeScript(m *Manager, script string) (string, Status, error) {
	p, err := startScript(m, script)
	if err != nil {
		return "", Status{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), hung)
	defer cancel()
	r, err := collect(ctx, p, 0, 0)
	return r.stdout.String(), r.status, err
}
