package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

const (
	ctrlP = "\x10"
	ctrlQ = "\x11"
)

// waiting is a command that prints "ready" and then runs until it is ended.
var waiting = []string{"sh", "-c", "echo ready; sleep 600"}

func TestTerminals(t *testing.T) {
	w := newDesktop(t, "PODAGENT_BACKEND=local", "PODAGENT_ISOLATION=none")
	testTerminals(t, w)
	// These tests signal an agent by its process id, so it must run on this
	// machine.
	runTerminals(t, w, map[string]func(*testing.T, *desktop){
		"a second signal finds the terminal restored": testSecondSignal,
		"a lost agent leaves no raw mode":             testLostAgent,
	})
}

func TestTerminalsOfPods(t *testing.T) {
	env := []string{"PODAGENT_BACKEND=kubernetes"}
	for name, value := range clusterEnv(t, launchertest.NewCluster(t, launcher.Restricted)) {
		env = append(env, name+"="+value)
	}
	testTerminals(t, newDesktop(t, env...))
}

func testTerminals(t *testing.T, w *desktop) {
	runTerminals(t, w, map[string]func(*testing.T, *desktop){
		"a command gets size and TERM":                   testSizeAndTerm,
		"keys and output pass unchanged":                 testUnchanged,
		"the program follows the size":                   testResize,
		"a shell is found and exits with its status":     testShell,
		"detach keys leave a command running":            testDetachKeys,
		"detach keys can be chosen":                      testOtherKeys,
		"an attachment shows the screen":                 testScreen,
		"detaching undoes the program's modes":           testModesUndone,
		"a command is started detached":                  testStartedDetached,
		"a signal kills the command":                     testSignals,
		"a closed window kills the command":              testClosedWindow,
		"a signal to an attachment leaves the command":   testSignalToAttachment,
		"run has detach keys unless it removes":          testRun,
		"a terminal as input only is enough":             testOnlyInput,
		"a command that cannot start leaves no raw mode": testCannotStart,
	})
}

func runTerminals(t *testing.T, w *desktop, tests map[string]func(*testing.T, *desktop)) {
	for name, test := range tests {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			test(t, w)
		})
	}
}

func testSizeAndTerm(t *testing.T, w *desktop) {
	win := w.open(t, "exec", "a", "-it", "-e", "X=1", "--", "sh", "-c", "test -t 0 && test -t 1 && test -t 2 && echo $TERM $X; stty size; exit 3")
	win.expect(`xterm-256color 1\r\n24 80\r\n`)
	win.exits(3)
}

func testUnchanged(t *testing.T, w *desktop) {
	win := w.open(t, "exec", "a", "-t", "--", "sh", "-c", `stty raw -echo; printf 'ready\n\033[31m\377'; head -c 4 | od -An -tx1`)
	if shown := win.expect(`(?s)ready\n\x1b\[31m.`); shown != "ready\n\x1b[31m\xff" {
		t.Errorf("shown was %q", shown)
	}
	win.isRaw()
	win.typed("\x03\x04\x1a\r")
	win.expect(` 03 04 1a 0d\n`)
	win.exits(0)
}

func testResize(t *testing.T, w *desktop) {
	win := w.open(t, "exec", "a", "-t", "--", "sh", "-c", `trap 'stty size' WINCH; trap 'exit 9' INT; echo ready; while :; do sleep 600 & wait $!; done`)
	win.expect("ready")
	for _, size := range [][2]int{{30, 100}, {10, 40}} {
		win.resize(size[0], size[1])
		win.expect(fmt.Sprintf("%d %d\r\n", size[0], size[1]))
	}
	win.typed("\x03")
	win.exits(9)
}

func testShell(t *testing.T, w *desktop) {
	win := w.open(t, "shell", "a")
	win.typed("echo $((6 * 7))=$0; pwd; exit 5\n")
	win.expect(`42=\S*bash\r\n.*/workspace\r\n`)
	win.exits(5)
	win = w.open(t, "shell", "a", "-e", "SHELL=/bin/sh", "-w", "/")
	win.typed("echo $((6 * 7))=$0; pwd; exit\n")
	win.expect(`42=/bin/sh\r\n/\r\n`)
	win.exits(0)
	win = w.open(t, "shell", "a", "--", "sh", "-c", "exit 6")
	win.exits(6)
}

// leave detaches from the running command and returns the exec id that is then
// shown.
func (w *window) leave(keys ...string) string {
	w.t.Helper()
	for _, k := range keys {
		w.typed(k)
	}
	shown := w.expect(`exec ([0-9a-f]{12}) runs on: "orchestrator attach a [0-9a-f]{12}" goes back to it`)
	id := regexp.MustCompile(`exec ([0-9a-f]{12}) runs on`).FindStringSubmatch(shown)[1]
	w.exits(0)
	return id
}

func testDetachKeys(t *testing.T, w *desktop) {
	win := w.open(t, "exec", "a", "-it", "--", "sh", "-c", `stty raw -echo; echo ready; head -c 2 | od -An -tx1; cat`)
	win.expect("ready\n")
	win.typed(ctrlP + "x")
	win.expect(" 10 78\n")
	id := win.leave(ctrlP, ctrlQ)
	if list := w.run(t, "ps", "a"); !strings.Contains(list, id) {
		t.Errorf("%s is not in\n%s", id, list)
	}
	win = w.open(t, "attach", "a", id)
	win.expect("ready\n 10 78\n")
	win.typed("hello")
	win.expect("hello")
	if again := win.leave(ctrlP + ctrlQ); again != id {
		t.Errorf("%s became %s", id, again)
	}
	w.run(t, "kill", "a", id)
}

func testOtherKeys(t *testing.T, w *desktop) {
	win := w.open(t, "exec", "a", "-t", "--detach-keys", "ctrl-a,d", "--", "sh", "-c", "echo ready; exec cat")
	win.expect("ready")
	win.typed(ctrlP + ctrlQ + "here\n")
	win.expect("here\r\n.*here\r\n")
	w.run(t, "kill", "a", win.leave("\x01", "d"))
	win = w.open(t, "exec", "a", "-t", "--detach-keys", "", "--", "sh", "-c", "stty raw -echo; echo ready; head -c 2 | od -An -tx1")
	win.expect("ready\n")
	win.typed(ctrlP + ctrlQ)
	win.expect(" 10 11\n")
	win.exits(0)
}

func testScreen(t *testing.T, w *desktop) {
	win := w.open(t, "exec", "a", "-t", "--", "sh", "-c", `trap 'stty size' WINCH; trap 'exit 9' INT
		seq -f 'old %g' 1000; printf '\033[2J\033[Hnew'; while :; do sleep 600 & wait $!; done`)
	win.expect("new")
	id := win.leave(ctrlP, ctrlQ)
	win = w.open(t, "attach", "a", id)
	// The size changes for a moment and back: this makes programs redraw.
	if shown := win.expect(`(?s)new.*24 80\r\n`); strings.Contains(shown, "old") || !strings.Contains(shown, "\x1b[2J") {
		t.Errorf("shown was %q", shown)
	}
	win.typed("\x03")
	win.exits(9)
	win = w.open(t, "logs", "a", id, "--stdout")
	win.expect("old 1\r*\n")
	win.expect("old 1000\r*\n")
	win.exits(0)
}

func testModesUndone(t *testing.T, w *desktop) {
	win := w.open(t, "exec", "a", "-t", "--", "sh", "-c", `printf '\033[?1049h\033[?25l\033[?1000hdrawn'; sleep 600`)
	win.expect("drawn")
	win.typed(ctrlP + ctrlQ)
	win.expect(`\x1b\[\?25h\x1b\[\?1000l\x1b\[\?1049l\r\n`)
	w.run(t, "kill", "a", win.leave())
	win = w.open(t, "exec", "a", "-t", "--", "printf", `\033[?25lleft so`)
	win.exits(0)
	if shown := win.expect("left so"); strings.Contains(shown, "25h") {
		t.Errorf("the modes that a finished command left were undone: %q", shown)
	}
}

func testStartedDetached(t *testing.T, w *desktop) {
	id := strings.TrimSpace(w.run(t, "exec", "a", "-dt", "--", "sh", "-c", "stty size; exec cat"))
	// Attaching changes the size for a moment.
	out := ""
	for deadline := time.Now().Add(hung); !strings.HasSuffix(out, "\n"); out = w.run(t, "logs", "a", id) {
		if time.Now().After(deadline) {
			t.Fatalf("the output is %q", out)
		}
	}
	if out != "24 80\r\n" {
		t.Errorf("the output is %q", out)
	}
	win := w.open(t, "attach", "a", id)
	win.typed("hello\n")
	win.expect("hello\r\nhello\r\n")
	win.typed("\x04")
	win.exits(0)
}

// begin runs the waiting command in a window, and returns the name that identifies
// it.
func (w *desktop) begin(t *testing.T) (*window, string) {
	t.Helper()
	// Each command has its own name, which shows in the list.
	name := strings.ReplaceAll(t.Name(), "/", "-")
	win := w.open(t, append([]string{"exec", "a", "-t", "-e", "NAME=" + name, "--"}, append(waiting, name)...)...)
	win.expect("ready")
	win.isRaw()
	return win, name
}

// runs reports whether the command that was begun under this name still runs.
func (w *desktop) runs(t *testing.T, name string) bool {
	t.Helper()
	return strings.Contains(w.run(t, "ps", "a", "-o", "json"), name+`"`)
}

func testSignals(t *testing.T, w *desktop) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
		t.Run(sig.String(), func(t *testing.T) {
			win, name := w.begin(t)
			if err := win.program.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			win.exits(128 + int(sig))
			if w.runs(t, name) {
				t.Errorf("the command still runs after %v", sig)
			}
		})
	}
}

// testSecondSignal stops the agent, so that the orchestrator has to wait for the
// effect of the first signal.
func testSecondSignal(t *testing.T, w *desktop) {
	w.run(t, "up", "b")
	var agent int
	if _, err := fmt.Sscan(w.run(t, "exec", "b", "--", "sh", "-c", "echo $PPID"), &agent); err != nil {
		t.Fatal(err)
	}
	win := w.open(t, append([]string{"exec", "b", "-t", "--"}, waiting...)...)
	win.expect("ready")
	signal := func(pid int, sig syscall.Signal) {
		if err := syscall.Kill(pid, sig); err != nil {
			t.Fatal(err)
		}
	}
	signal(agent, syscall.SIGSTOP)
	t.Cleanup(func() {
		signal(agent, syscall.SIGCONT)
		w.run(t, "down", "b")
	})
	signal(win.program.Process.Pid, syscall.SIGTERM)
	for deadline := time.Now().Add(hung); !cmp.Equal(win.before, win.modes()); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the terminal was not restored")
		}
	}
	signal(win.program.Process.Pid, syscall.SIGTERM)
	<-win.ended
	if diff := cmp.Diff(win.before, win.modes()); diff != "" {
		t.Errorf("the terminal was not restored (-before +after):\n%s", diff)
	}
	if state := win.program.ProcessState; state.Success() || strings.Contains(win.rest(), "may still run") {
		t.Errorf("the program waited: %v, %q", state, win.rest())
	}
}

func testClosedWindow(t *testing.T, w *desktop) {
	win, name := w.begin(t)
	if err := win.keys.Close(); err != nil {
		t.Fatal(err)
	}
	<-win.ended
	if got := win.program.ProcessState.ExitCode(); got != 129 || w.runs(t, name) {
		t.Errorf("exit status %d; the command runs: %v", got, w.runs(t, name))
	}
}

func testSignalToAttachment(t *testing.T, w *desktop) {
	id := strings.TrimSpace(w.run(t, append([]string{"exec", "a", "-dt", "--"}, waiting...)...))
	win := w.open(t, "attach", "a", id)
	win.expect("ready")
	win.isRaw()
	if err := win.program.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	win.expect("runs on")
	win.exits(143)
	if !w.runs(t, id) {
		t.Error("the command was ended")
	}
	w.run(t, "kill", "a", id)
}

func testOnlyInput(t *testing.T, w *desktop) {
	win := w.open(t, "version") // only its terminal is needed
	win.exits(0)
	cmd := exec.Command(filepath.Join(w.bin, "orchestrator"), "exec", "a", "-t", "--", "sh", "-c", "test -t 1 && stty size")
	cmd.Env, cmd.Stdin = w.env, win.tty
	if out, err := cmd.Output(); err != nil || string(out) != "24 80\r\n" {
		t.Errorf("%q, %v", out, err)
	}
}

func testCannotStart(t *testing.T, w *desktop) {
	win := w.open(t, "exec", "a", "-t", "--", "no-such-command")
	win.expect("no such file or directory: give the path")
	win.exits(127)
}

func testLostAgent(t *testing.T, w *desktop) {
	w.run(t, "up", "lost")
	t.Cleanup(func() { w.run(t, "down", "lost") })
	pid, err := strconv.Atoi(strings.TrimSpace(w.run(t, "exec", "lost", "--", "sh", "-c", "echo $PPID")))
	if err != nil {
		t.Fatal(err)
	}
	win := w.open(t, append([]string{"exec", "lost", "-t", "--"}, waiting...)...)
	win.expect("ready")
	win.isRaw()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	win.expect("agent lost")
	win.exits(125)
}

func testRun(t *testing.T, w *desktop) {
	win := w.open(t, "run", "--rm", "-t", "--", "sh", "-c", "stty raw -echo; echo ready; head -c 2 | od -An -tx1; exit 4")
	win.expect("ready\n")
	win.typed(ctrlP + ctrlQ)
	win.expect(" 10 11\n")
	win.exits(4)
	win = w.open(t, append([]string{"run", "--id", "a", "-t", "--"}, waiting...)...)
	win.expect("ready")
	w.run(t, "kill", "a", win.leave(ctrlP, ctrlQ))
}
