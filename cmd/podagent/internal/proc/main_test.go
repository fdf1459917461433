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

// helperEnv names the helper to run instead of the tests.
const helperEnv = "PODAGENT_TEST_HELPER"

// helpers need their own process: an agent that is PID 1, or that runs in a control
// group. The test gets their output. An error fails the test.
func helpers() map[string]func() error {
	return map[string]func() error{
		"behind":   helpBehind,
		"bomb":     helpBomb,
		"headless": helpHeadless,
		"hog":      helpHog,
		"limit":    helpLimit,
		"nested":   helpNested,
		"orphans":  helpOrphans,
		"stopper":  helpStopper,
		"storm":    helpStorm,
		"term":     helpTerm,
		"usage":    helpUsage,
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
	case <-headless:
		syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0)
	case <-ctx.Done():
	}
	if <-ctx.Done(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A helper reaps in its main thread.
func init() { runtime.LockOSThread() }

// headless receives a value from a helper whose first thread ends.
var headless = make(chan bool)

// alone receives the manager of a helper that is alone in its process.
var alone = make(chan *Manager, 1)

func newAlone() *Manager {
	m := NewManager(Options{Alone: true, Thread: confined()})
	alone <- m
	return m
}

// helperCommand returns a command that runs a helper, through wrapper if there is
// one. At the end of the test it is killed, with everything in its namespace.
func helperCommand(t *testing.T, name string, wrapper ...string) *exec.Cmd {
	t.Helper()
	args := append(wrapper, os.Args[0])
	cmd := exec.CommandContext(testContext(t), args[0], args[1:]...)
	cmd.Env = append(os.Environ(), helperEnv+"="+name)
	cmd.WaitDelay = 30 * time.Second
	return cmd
}

// inNamespace makes a command PID 1 of a new PID namespace.
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
