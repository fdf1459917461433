package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// terminalShell returns the spec of a script for sh in a terminal.
func terminalShell(t testing.TB, script string) Spec {
	t.Helper()
	spec := shell(t, script)
	spec.Terminal = &TerminalSize{Rows: 24, Columns: 80}
	return spec
}

// screenLines runs a process in a terminal and returns the lines that it printed.
func screenLines(t *testing.T, m *Manager, spec Spec) []string {
	t.Helper()
	r := run(t, m, spec)
	if r.stderr.Len() > 0 || r.status.Stderr != 0 {
		t.Errorf("standard error is apart: %q", &r.stderr)
	}
	return strings.Split(strings.TrimSuffix(r.stdout.String(), "\r\n"), "\r\n")
}

func TestTerminalIsTheProcesss(t *testing.T) {
	m := newManager(t)
	script := `for f in 0 1 2; do test -t $f || echo $f is none; done
		stty size; echo $TERM; echo controls > /dev/tty; echo err >&2
		awk '/^flags/ { printf "%o\n", $2 % 10000 - $2 % 1000 }' /proc/self/fdinfo/0
		ls -1 /proc/$$/fd`
	spec := terminalShell(t, strings.ReplaceAll(script, "\n\t\t", "\n"))
	got := screenLines(t, m, spec)
	// The flags must not contain 04000, O_NONBLOCK.
	want := []string{"24 80", "xterm-256color", "controls", "err", "0", "0", "1", "2"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestTerminalTypeIsTheCallers(t *testing.T) {
	spec := terminalShell(t, "echo $TERM")
	spec.Env = append(spec.Env, "TERM=screen")
	if got := screenLines(t, newManager(t), spec); got[0] != "screen" {
		t.Errorf("got %q", got)
	}
}

// A process may end before the kernel has moved its last output to the terminal's reader.
func TestLastOutputInATerminalCountsAtOnce(t *testing.T) {
	term, err := openTerminal(TerminalSize{})
	if err != nil {
		t.Fatal(err)
	}
	defer term.close()
	out := &source{file: term.master, raw: term.raw}
	buf := make([]byte, 10)
	for i := range 1000 {
		if _, err := unix.Write(term.slave, []byte("end")); err != nil {
			t.Fatal(err)
		}
		if n := out.pending(); n != 3 {
			t.Fatalf("round %d: %d bytes count, want 3", i, n)
		}
		if _, err := term.master.Read(buf); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTerminalOutputIsComplete(t *testing.T) {
	m := newManager(t)
	for range 20 {
		got := screenLines(t, m, terminalShell(t, "exec seq 1 30000"))
		for i, line := range got {
			if line != fmt.Sprint(i+1) {
				t.Fatalf("line %d is %q", i+1, line)
			}
		}
		if len(got) != 30000 {
			t.Fatalf("got %d lines", len(got))
		}
	}
}

// typed starts a process in a terminal and waits until it has printed "up".
func typed(t *testing.T, m *Manager, script string) *Process {
	t.Helper()
	return startPrinted(t, m, terminalShell(t, "stty -echo; "+script), int64(len("up\r\n")))
}

func TestInterruptCharacter(t *testing.T) {
	p := typed(t, newManager(t), `trap "echo interrupted; exit 3" INT; echo up; while :; do sleep 0.01; done`)
	if _, err := p.WriteStdin(t.Context(), 0, []byte("\x03")); err != nil {
		t.Fatal(err)
	}
	if r := finish(t, p); r.status.Code != 3 || r.stdout.String() != "up\r\ninterrupted\r\n" {
		t.Errorf("got %+v, %q", r.status, &r.stdout)
	}
}

func TestTerminalInputIsAcknowledgedByOffset(t *testing.T) {
	p := typed(t, newManager(t), `echo up; read a; read b; echo "$a, $b"`)
	for _, w := range []struct {
		offset int64
		text   string
	}{{0, "one\n"}, {2, "e\ntwo\n"}} {
		next, err := p.WriteStdin(t.Context(), w.offset, []byte(w.text))
		if want := w.offset + int64(len(w.text)); err != nil || next != want {
			t.Fatalf("accepted %d of %d: %v", next, want, err)
		}
	}
	if r := finish(t, p); r.stdout.String() != "up\r\none, two\r\n" {
		t.Errorf("got %q", &r.stdout)
	}
}

func TestClosedTerminalInputEnds(t *testing.T) {
	m := newManager(t)
	for _, text := range []string{"", "line\n", "line\nunfinished"} {
		p := typed(t, m, "echo up; cat; echo end")
		if !p.StdinOpen() {
			t.Error("standard input is not open")
		}
		if _, err := p.WriteStdin(t.Context(), 0, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := p.CloseStdin(); err != nil {
			t.Fatal(err)
		}
		if p.StdinOpen() {
			t.Error("standard input is still open")
		}
		if _, err := p.WriteStdin(t.Context(), int64(len(text)), []byte("x")); !errors.Is(err, ErrStdinClosed) {
			t.Errorf("write after the end: %v", err)
		}
		want := "up\r\n" + strings.ReplaceAll(text, "\n", "\r\n") + "end\r\n"
		if got := finish(t, p).stdout.String(); got != want {
			t.Errorf("%q: got %q", text, got)
		}
	}
}

func TestClosedTerminalInputWaitsForItsReader(t *testing.T) {
	gate := fifo(t)
	p := start(t, newManager(t), terminalShell(t, `stty -echo; echo up; read x < `+gate+`; cat | wc -c`))
	eventually(t, "output", func() bool { n, _, _ := p.out.sizes(); return n >= 4 })
	// More than the kernel buffers for a terminal, some 70 KiB.
	lines := strings.Repeat(strings.Repeat("x", 99)+"\n", 3000)
	blocked := make(chan error, 1)
	go func() {
		_, err := p.WriteStdin(context.Background(), 0, []byte(lines))
		blocked <- err
	}()
	eventually(t, "input", func() bool {
		n, err := unix.IoctlGetInt(p.terminal.slave, unix.TIOCINQ)
		return n > 0 && err == nil
	})
	p.CloseStdin()
	if err := <-blocked; !errors.Is(err, ErrStdinClosed) {
		t.Errorf("the writer got %v", err)
	}
	send(t, gate)
	r := finish(t, p)
	if got, want := strings.TrimSpace(strings.TrimPrefix(r.stdout.String(), "up")), fmt.Sprint(p.StdinAccepted()); got != want {
		t.Errorf("it read %s bytes of %s", got, want)
	}
}

func TestTerminalInputEndsWithItsProcess(t *testing.T) {
	p := typed(t, newManager(t), "echo up; exec sleep 300")
	blocked := make(chan error, 1)
	go func() {
		_, err := p.WriteStdin(context.Background(), 0, []byte(strings.Repeat("line\n", 4000)))
		blocked <- err
	}()
	if err := p.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := <-blocked; !errors.Is(err, ErrStdinClosed) {
		t.Errorf("got %v", err)
	}
	finish(t, p)
}

func TestResize(t *testing.T) {
	p := typed(t, newManager(t), `trap "stty size; exit" WINCH; echo up; while :; do sleep 0.01; done`)
	if err := p.Resize(TerminalSize{Rows: 50, Columns: 132}); err != nil {
		t.Fatal(err)
	}
	if got := finish(t, p).stdout.String(); got != "up\r\n50 132\r\n" {
		t.Errorf("got %q", got)
	}
	if err := p.Resize(TerminalSize{Rows: 1, Columns: 1}); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("after the end: %v", err)
	}
}

func TestRedrawChangesTheSizeAndBack(t *testing.T) {
	m := newManager(t, func(l *limits) { l.redrawPause = time.Hour }) // until the script has seen each size
	p := typed(t, m, `trap "stty size" WINCH; echo up; while :; do sleep 0.01; done`)
	want := "up\r\n"
	sees := func(size string) {
		t.Helper()
		want += size + "\r\n"
		eventually(t, size, func() bool { n, _, _ := p.out.sizes(); return n >= int64(len(want)) })
	}
	endPause := func() error {
		return p.withTerminal("redraw", func(t *terminal) error { t.redrawn(); return nil })
	}
	if err := p.Redraw(TerminalSize{Rows: 30, Columns: 100}); err != nil {
		t.Fatal(err)
	}
	sees("29 100")
	if err := endPause(); err != nil {
		t.Fatal(err)
	}
	sees("30 100")
	// If another size is set in between, it stays.
	if err := errors.Join(p.Redraw(TerminalSize{Rows: 30, Columns: 100}), p.Resize(TerminalSize{Rows: 40, Columns: 90})); err != nil {
		t.Fatal(err)
	}
	sees("29 100")
	if err := endPause(); err != nil {
		t.Fatal(err)
	}
	sees("40 90")
	if err := p.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if got := finish(t, p).stdout.String(); got != want {
		t.Errorf("got %q", got)
	}
}

func TestResizeWithoutATerminal(t *testing.T) {
	p := start(t, newManager(t), argv(t, "true"))
	for _, err := range []error{p.Resize(TerminalSize{}), p.Redraw(TerminalSize{})} {
		if !errors.Is(err, syscall.EINVAL) {
			t.Errorf("got %v", err)
		}
	}
	finish(t, p)
}

func TestTerminalThatIsOpenNowhereForAMoment(t *testing.T) {
	script := `exec < /dev/null > /dev/null 2>&1; sleep 0.05; exec > /dev/tty; echo again`
	if got := screenLines(t, newManager(t), terminalShell(t, script)); got[0] != "again" {
		t.Errorf("got %q", got)
	}
}

func TestDescendantThatHoldsTheTerminal(t *testing.T) {
	m := newManager(t)
	p := start(t, m, terminalShell(t, `trap "" HUP; sleep 300 & echo end`))
	r := finish(t, p)
	if !r.status.OutputOpen || r.stdout.String() != "end\r\n" {
		t.Errorf("got %+v, %q", r.status, &r.stdout)
	}
}

func TestTerminalsLeaveNoDescriptor(t *testing.T) {
	m := newManager(t)
	before := countDescriptors(t)
	for range 20 {
		run(t, m, terminalShell(t, "stty size"))
	}
	spec := terminalShell(t, "true")
	spec.Argv[0] = "no-such-command"
	if _, _, err := m.Start(t.Context(), spec); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	eventually(t, "that all is closed", func() bool { return countDescriptors(t) <= before })
}

func TestReattachedScreen(t *testing.T) {
	m := newManager(t)
	filler := strings.Repeat("x", 1000)
	p := start(t, m, terminalShell(t, `printf '\033[?1049h\033[?2004h'
		i=0; while [ $i -lt 100 ]; do printf `+filler+`; i=$((i+1)); done
		printf '\033[H\033[2Jdrawn'; read x`))
	size := int64(len("\x1b[?1049h\x1b[?2004h") + 100*1000 + len("\x1b[H\x1b[2Jdrawn"))
	eventually(t, "output", func() bool { n, _, _ := p.out.sizes(); return n == size })
	var got strings.Builder
	var next int64
	for ev, err := range p.Attach(testContext(t), AttachOptions{Screen: true, NoFollow: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if got.Len() > 0 && !ev.Detached && ev.Offset != next {
			t.Errorf("offset %d follows %d", ev.Offset, next)
		}
		next = ev.Offset + int64(len(ev.Data))
		got.Write(ev.Data)
	}
	if want := "\x1b[?1049h\x1b[?2004h\x1b[H\x1b[2Jdrawn"; got.String() != want {
		t.Errorf("got %q", got.String())
	}
	if err := p.Signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	finish(t, p)
}
