package e2e

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// The tests of this file use programs through terminals.

// terminal is a terminal as a user has it: a screen and keys.
type terminal struct {
	process *podapi.Process
	screen  *screen
	keys    io.Writer
}

// openTerminal starts a command on a screen of this size.
func openTerminal(t *testing.T, cmd *podapi.Cmd, size podapi.TerminalSize) *terminal {
	t.Helper()
	screen := newScreen(size.Rows, size.Columns)
	cmd.Stdout = screen
	keys, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if !cmd.Process.HasTerminal() {
		t.Fatalf("%s has no terminal", cmd)
	}
	return &terminal{cmd.Process, screen, keys}
}

// attachTerminal attaches to a process with a screen of this size.
func attachTerminal(ctx context.Context, t *testing.T, s *launcher.Sandbox, id string, size podapi.TerminalSize) *terminal {
	t.Helper()
	screen := newScreen(size.Rows, size.Columns)
	input, keys := io.Pipe()
	process, err := s.Attach(ctx, id, podapi.AttachOptions{Stdin: input, Stdout: screen, Screen: &size})
	if err != nil {
		t.Fatal(err)
	}
	if !process.HasTerminal() {
		t.Fatalf("%s has no terminal", id)
	}
	return &terminal{process, screen, keys}
}

func (x *terminal) press(t *testing.T, keys string) {
	t.Helper()
	if _, err := io.WriteString(x.keys, keys); err != nil {
		t.Fatal(err)
	}
}

// awaitRow waits until a row of the screen has this text. Row -1 is the last one.
func (x *terminal) awaitRow(t *testing.T, row int, text string) {
	t.Helper()
	defer func() {
		if lines, _ := x.screen.text(); t.Failed() {
			t.Logf("the screen:\n%s", strings.Join(lines, "\n"))
		}
	}()
	harness.Await(t, fmt.Sprintf("%q in row %d", text, row), func() bool {
		lines, _ := x.screen.text()
		return lines[(row+len(lines))%len(lines)] == text
	})
}

// program returns a command for a terminal, as the CLI runs it.
func program(ctx context.Context, s *launcher.Sandbox, size podapi.TerminalSize, args ...string) *podapi.Cmd {
	cmd := s.Command(ctx, args[0], args[1:]...)
	cmd.Terminal = &size
	cmd.Env = []string{"TERM=xterm-256color", "LANG=C.UTF-8"}
	return cmd
}

// launchTerminal launches a pod whose image has terminal programs. It returns the
// sandbox over a connection that can be cut, and over another one.
func launchTerminal(t *testing.T, c *launchertest.Cluster) (s, other *launcher.Sandbox, w *harness.Wire) {
	t.Helper()
	w, l := harness.WireTo(t, c)
	spec := c.Spec("a")
	spec.Pod.Image = launchertest.ProgramsImage
	s = harness.Launch(t, l, spec)
	other, err := c.Launcher().Open(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Close() })
	return s, other, w
}

// cutOff cuts the connection of a terminal whose command does not resume, and
// attaches another client to the command.
func cutOff(ctx context.Context, t *testing.T, x *terminal, w *harness.Wire, other *launcher.Sandbox) *terminal {
	t.Helper()
	w.Reset()
	if err := x.process.Wait(); !harness.IsCut(err) {
		t.Fatalf("the client that was cut off: %v", err)
	}
	if p := process(t, other, x.process.ID()); p.Status != nil || !p.Terminal {
		t.Fatalf("the program did not continue: %+v", p)
	}
	size := podapi.TerminalSize{Rows: x.screen.rows, Columns: x.screen.cols}
	next := attachTerminal(ctx, t, other, x.process.ID(), size)
	want, alternate := x.screen.text()
	if !alternate {
		t.Error("the program does not use the alternate screen")
	}
	// In the last row, programs show messages.
	defer func() {
		got, alternate := next.screen.text()
		if diff := cmp.Diff(want, got); t.Failed() || !alternate {
			t.Errorf("another client sees a different screen (alternate: %v):\n%s", alternate, diff)
		}
	}()
	last := len(want) - 1
	harness.Await(t, "the same screen", func() bool {
		got, _ := next.screen.text()
		return slices.Equal(got[:last], want[:last])
	})
	return next
}

// end checks that the program ends by itself and leaves the alternate screen.
func (x *terminal) end(t *testing.T) {
	t.Helper()
	if err := x.process.Wait(); err != nil {
		lines, _ := x.screen.text()
		t.Errorf("the program: %v\n%s", err, strings.Join(lines, "\n"))
	}
	if _, alternate := x.screen.text(); alternate {
		t.Error("the program left the terminal on the alternate screen")
	}
}

func TestVimIsResizedCutOffReattachedToAndSavesTheFile(t *testing.T) { overEachWay(t, testVim) }

func testVim(t *testing.T, c *launchertest.Cluster) {
	s, other, w := launchTerminal(t, c)
	harness.Put(t, s, "file", "first line\n")
	ctx, cancel := context.WithTimeout(t.Context(), harness.Hung)
	defer cancel()
	size := podapi.TerminalSize{Rows: 24, Columns: 80}
	cmd := program(ctx, s, size, "vim", "-N", "-u", "NONE", "file")
	cmd.ResumeTimeout = -1
	x := openTerminal(t, cmd, size)
	x.awaitRow(t, 0, "first line")
	x.awaitRow(t, 1, "~")
	x.press(t, "osecond line\rthird")
	x.awaitRow(t, 2, "third")

	x.screen.resize(40, 100)
	if err := cmd.Process.Resize(podapi.TerminalSize{Rows: 40, Columns: 100}); err != nil {
		t.Fatal(err)
	}
	x.awaitRow(t, 38, "~")
	x.awaitRow(t, 1, "second line")
	x.press(t, "\x1b:echo &lines 'by' &columns\r")
	x.awaitRow(t, -1, "40 by 100")

	next := cutOff(ctx, t, x, w, other)
	// When Vim beeps it forgets what was typed ahead. It may do so for what the new terminal
	// answers to questions that Vim asked the old one.
	harness.Await(t, "Vim's attention", func() bool {
		next.press(t, "\x1b:echo 'at' 'work'\r")
		lines, _ := next.screen.text()
		return slices.Contains(lines, "at work")
	})
	next.press(t, "A line\x1b:wq\r")
	next.end(t)
	if got := harness.Get(t, other, "file"); got != "first line\nsecond line\nthird line\n" {
		t.Errorf("the file has %q", got)
	}
}

func TestFullScreenProgramIsCutOffAndReattachedTo(t *testing.T) {
	overEachWay(t, testFullScreenPrograms)
}

func testFullScreenPrograms(t *testing.T, c *launchertest.Cluster) {
	s, other, w := launchTerminal(t, c)
	harness.Run(t, s, "seq 1000 > numbers", nil)
	for _, tt := range []struct {
		args []string
		// The text of the first row, the keys, the rows from row on after the keys,
		// and the keys that end the program.
		first, press string
		row          int
		then         []string
		quit         string
	}{
		{[]string{"less", "numbers"}, "1", " ", 0, []string{"24"}, "q"},
		{[]string{"tmux", "-f", "/dev/null", "new-session", "exec sh"}, "$", "echo $((6 * 7))\r", 1, []string{"42", "$"}, "exit\r"},
	} {
		t.Run(tt.args[0], func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), harness.Hung)
			defer cancel()
			size := podapi.TerminalSize{Rows: 24, Columns: 80}
			cmd := program(ctx, s, size, tt.args...)
			cmd.ResumeTimeout = -1
			x := openTerminal(t, cmd, size)
			x.awaitRow(t, 0, tt.first)
			x.press(t, tt.press)
			for i, text := range tt.then {
				x.awaitRow(t, tt.row+i, text)
			}
			next := cutOff(ctx, t, x, w, other)
			next.press(t, tt.quit)
			next.end(t)
		})
	}
}

func TestTerminalHasItsSizeEchoesAndSaysThatItChanged(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		ctx, cancel := context.WithTimeout(t.Context(), harness.Hung)
		defer cancel()
		size := podapi.TerminalSize{Rows: 24, Columns: 80}
		x := openTerminal(t, program(ctx, s, size, "bash", "-c", `
trap 'echo changed' WINCH
stty size
until stty size | grep -qx "40 100"; do sleep 0.05; done
stty size
read -r line
echo "got $line" >&2
exit 5`), size)
		x.awaitRow(t, 0, "24 80")
		if err := x.process.Resize(podapi.TerminalSize{Rows: 40, Columns: 100}); err != nil {
			t.Fatal(err)
		}
		x.awaitRow(t, 1, "changed")
		x.awaitRow(t, 2, "40 100")
		x.press(t, "hello\r")
		x.awaitRow(t, 3, "hello")
		x.awaitRow(t, 4, "got hello")
		if err := x.process.Wait(); x.process.Status() == nil || x.process.Status().Code != 5 {
			t.Errorf("it ended with %v", err)
		}
	})
}
