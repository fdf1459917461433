package e2e

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// sshTerminal is ssh in a terminal of this machine, as a user sees it.
type sshTerminal struct {
	terminal
	master *os.File
	ssh    *exec.Cmd
	shown  chan struct{} // closed when all output is on the screen
}

// openSSH opens a terminal with ssh in it, of 24 lines of 80 columns.
func (h *sshHost) openSSH(t *testing.T, args ...string) *sshTerminal {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), harness.Hung)
	t.Cleanup(cancel)
	x := &sshTerminal{terminal: terminal{screen: newScreen(24, 80)}, ssh: h.ssh(ctx, args...), shown: make(chan struct{})}
	master, err := pty.StartWithSize(x.ssh, &pty.Winsize{Rows: 24, Cols: 80})
	if err != nil {
		t.Fatal(err)
	}
	x.master, x.keys = master, master
	go func() {
		defer close(x.shown)
		_, _ = io.Copy(x.screen, master) // it fails when ssh has ended
	}()
	t.Cleanup(func() {
		cancel()
		_ = x.ssh.Wait() // it was waited for, or killed
		<-x.shown
		master.Close()
	})
	return x
}

func (x *sshTerminal) resize(t *testing.T, rows, columns int) {
	t.Helper()
	x.screen.resize(rows, columns)
	if err := pty.Setsize(x.master, &pty.Winsize{Rows: uint16(rows), Cols: uint16(columns)}); err != nil {
		t.Fatal(err)
	}
}

// awaitScreen waits until the lines of the screen match a pattern.
func (x *sshTerminal) awaitScreen(t *testing.T, pattern string) {
	t.Helper()
	re := regexp.MustCompile(pattern)
	var text string
	defer func() {
		if t.Failed() {
			t.Logf("the screen:\n%s", text)
		}
	}()
	harness.Await(t, pattern, func() bool {
		lines, _ := x.screen.text()
		text = strings.Join(lines, "\n")
		return re.MatchString(text)
	})
}

// exits waits for the end of ssh, with this status.
func (x *sshTerminal) exits(t *testing.T, status int) {
	t.Helper()
	err := x.ssh.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == status || err == nil && status == 0 {
		return
	}
	lines, _ := x.screen.text()
	t.Errorf("ssh ended with %v:\n%s", err, strings.Join(lines, "\n"))
}

func TestVimBySSHIsDrawnAgainAfterAResizeAndSavesTheFile(t *testing.T) {
	overEachSSHHost(t, func(t *testing.T, h *sshHost) {
		x := h.openSSH(t, "-tt", "a.podagent", "vim -N -u NONE file")
		x.awaitRow(t, 1, "~")
		x.press(t, "ifirst line\rsecond line")
		x.awaitRow(t, 1, "second line")
		x.resize(t, 40, 100)
		x.awaitRow(t, 38, "~")
		x.awaitRow(t, 0, "first line")
		x.press(t, "\x1b:echo &lines 'by' &columns\r")
		x.awaitRow(t, -1, "40 by 100")
		x.press(t, ":wq\r")
		x.exits(t, 0)
		if got := h.run(t, h.program, "cat", "a", "file"); got != "first line\nsecond line\n" {
			t.Errorf("the file has %q", got)
		}
	})
}

func TestTmuxBySSHSplitsItsWindow(t *testing.T) {
	overEachSSHHost(t, func(t *testing.T, h *sshHost) {
		x := h.openSSH(t, "-tt", "a.podagent", `export TMUX_TMPDIR=$(mktemp -d); exec tmux -u -f /dev/null new-session "PS1='> ' exec sh"`)
		x.awaitRow(t, 0, ">")
		x.press(t, "echo left\r")
		x.awaitRow(t, 1, "left")
		x.press(t, "\x02%") // ctrl-b and % split it
		x.awaitScreen(t, `(?m)^left {36}│`)
		x.press(t, "stty size\r")
		x.awaitScreen(t, `(?m)│23 39$`)
		x.resize(t, 30, 100)
		x.awaitScreen(t, `(?m)^left {46}│`)
		x.press(t, "until stty size | grep ^29; do sleep 0.1; done\r") // tmux resizes the terminals of its panes a little later
		x.awaitScreen(t, `(?m)│29 [45]\d$`)
		x.press(t, "exit\r")
		x.awaitRow(t, 2, ">")
		x.press(t, "exit\r")
		x.exits(t, 0)
	})
}
