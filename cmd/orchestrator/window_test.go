package main

import (
	"bytes"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// hung is how long a test waits for something that must happen.
const hung = 2 * time.Minute

// A window is a terminal in which a program runs, as a user sees it.
type window struct {
	t       *testing.T
	keys    *os.File // the user's side
	tty     *os.File // the program's side
	program *exec.Cmd
	before  *unix.Termios // the modes of the terminal when the program started
	ended   chan struct{}

	mu     sync.Mutex
	change sync.Cond
	shown  []byte // not yet expected
}

// A desktop opens windows on programs that share sandboxes.
type desktop struct {
	bin string
	env []string
}

// newDesktop returns a desktop with a sandbox called a. Its programs have env beside
// the test's own.
func newDesktop(t *testing.T, env ...string) *desktop {
	t.Helper()
	// A signal that is handled here is not ignored by the programs. They would
	// otherwise inherit that under nohup.
	hangUps := make(chan os.Signal, 1)
	signal.Notify(hangUps, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(hangUps) })
	bin := buildPrograms(t)
	w := &desktop{bin, slices.Concat(os.Environ(), []string{
		"PATH=" + bin + ":" + os.Getenv("PATH"), "PODAGENT_BIN=" + filepath.Join(bin, "podagent"),
		"XDG_STATE_HOME=" + t.TempDir(), "XDG_CONFIG_HOME=" + t.TempDir(), "HOME=" + t.TempDir(), "TERM=xterm-256color", "PS1=$ ",
	}, env)}
	w.run(t, "up", "a")
	t.Cleanup(func() { w.run(t, "down", "a") })
	return w
}

// run runs the orchestrator without a terminal, and returns its output.
func (w *desktop) run(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(w.bin, "orchestrator"), args...)
	cmd.Env = w.env
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", cmd, err)
	}
	return string(out)
}

// open runs the orchestrator in a terminal of 24 lines of 80 columns.
func (w *desktop) open(t *testing.T, args ...string) *window {
	t.Helper()
	master, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	keys := closable(t, master)
	cmd := exec.Command(filepath.Join(w.bin, "orchestrator"), args...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = w.env, tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	win := &window{t: t, keys: keys, tty: tty, program: cmd, ended: make(chan struct{})}
	win.change.L = &win.mu
	win.before = win.modes()
	win.resize(24, 80)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(win.close)
	go win.read()
	go func() {
		_ = cmd.Wait() // ProcessState has the status
		close(win.ended)
	}()
	return win
}

// closable returns the file as one that can be closed during a read.
func closable(t *testing.T, file *os.File) *os.File {
	t.Helper()
	defer file.Close()
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fd), file.Name())
}

func (w *window) resize(rows, columns int) {
	w.t.Helper()
	if err := pty.Setsize(w.tty, &pty.Winsize{Rows: uint16(rows), Cols: uint16(columns)}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *window) close() {
	_ = w.program.Process.Kill() // usually it has ended already
	<-w.ended
	w.keys.Close()
	w.tty.Close()
}

// read collects the output.
func (w *window) read() {
	buffer := make([]byte, 4096)
	for {
		n, err := w.keys.Read(buffer)
		w.mu.Lock()
		w.shown = append(w.shown, buffer[:n]...)
		w.mu.Unlock()
		w.change.Broadcast()
		if err != nil {
			return
		}
	}
}

// expect waits until the next output matches a pattern, and returns the output up
// to the end of the match.
func (w *window) expect(pattern string) string {
	w.t.Helper()
	re := regexp.MustCompile(pattern)
	var late bool
	defer time.AfterFunc(hung, func() {
		w.mu.Lock()
		late = true
		w.mu.Unlock()
		w.change.Broadcast()
	}).Stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		if at := re.FindIndex(w.shown); at != nil {
			text := string(w.shown[:at[1]])
			w.shown = bytes.Clone(w.shown[at[1]:])
			return text
		}
		if late {
			w.t.Fatalf("%v shows %[3]q, not %[2]q", w.program.Args[1:], pattern, w.shown)
		}
		w.change.Wait()
	}
}

// rest returns the output that was not yet expected.
func (w *window) rest() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.shown)
}

func (w *window) typed(keys string) {
	w.t.Helper()
	if _, err := w.keys.WriteString(keys); err != nil {
		w.t.Fatal(err)
	}
}

// exits waits for the program's end. It checks the exit status, and that the modes
// of the terminal are restored.
func (w *window) exits(status int) {
	w.t.Helper()
	select {
	case <-w.ended:
	case <-time.After(hung):
		w.t.Fatalf("%v did not end", w.program.Args[1:])
	}
	if got := w.program.ProcessState.ExitCode(); got != status {
		w.t.Errorf("%v exited with %d, want %d; it showed %q", w.program.Args[1:], got, status, w.rest())
	}
	if diff := cmp.Diff(w.before, w.modes()); diff != "" {
		w.t.Errorf("%v did not restore the terminal (-before +after):\n%s", w.program.Args[1:], diff)
	}
}

func (w *window) modes() *unix.Termios {
	w.t.Helper()
	modes, err := unix.IoctlGetTermios(int(w.tty.Fd()), unix.TCGETS)
	if err != nil {
		w.t.Fatal(err)
	}
	return modes
}

// isRaw checks that the terminal passes keys on unchanged.
func (w *window) isRaw() {
	w.t.Helper()
	if w.modes().Lflag&(unix.ICANON|unix.ISIG|unix.ECHO) != 0 {
		w.t.Error("the terminal is not raw")
	}
}
