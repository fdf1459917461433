package proc

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// helperEnv names the helper that this program is to be, instead of the tests.
const helperEnv = "PODAGENT_TEST_HELPER"

// helpers are what needs a process of its own: an agent that is PID 1, or in a
// control group. What they print goes to the test. An error fails it.
func helpers() map[string]func() error {
	return map[string]func() error{
		"behind":  helpBehind,
		"bomb":    helpBomb,
		"hog":     helpHog,
		"limit":   helpLimit,
		"orphans": helpOrphans,
		"term":    helpTerm,
	}
}

func TestMain(m *testing.M) {
	name := os.Getenv(helperEnv)
	if name == "" {
		os.Exit(m.Run())
	}
	os.Unsetenv(helperEnv)
	var err error
	ctx, end := context.WithCancel(context.Background())
	go func() {
		defer end()
		err = helpers()[name]()
	}()
	select {
	case m := <-alone:
		m.ReapOrphans(ctx)
	case <-ctx.Done():
	}
	if <-ctx.Done(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// The main thread of a helper reaps.
func init() { runtime.LockOSThread() }

// alone has the manager that a helper makes for itself alone.
var alone = make(chan *Manager, 1)

func newAlone() *Manager {
	m := NewManager(Options{Alone: true})
	alone <- m
	return m
}

// helperCommand returns a command for a helper, which is killed with all in
// its name space when the test ends. wrapper is what runs it.
func helperCommand(t *testing.T, name string, wrapper ...string) *exec.Cmd {
	t.Helper()
	args := append(wrapper, os.Args[0])
	cmd := exec.CommandContext(testContext(t), args[0], args[1:]...)
	cmd.Env = append(os.Environ(), helperEnv+"="+name)
	cmd.WaitDelay = time.Second
	return cmd
}

// inNamespace makes a command PID 1 of a name space of its own.
func inNamespace(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
	return cmd
}

// helperOutput runs a helper to its end.
func helperOutput(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the helper failed: %v\n%s%s", err, out, &stderr)
	}
	return strings.TrimSpace(string(out))
}
