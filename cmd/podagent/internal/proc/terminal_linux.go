package proc

import (
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// defaultTerm is the type of a terminal if the caller names none. All terminals that
// people use today understand it.
const defaultTerm = "TERM=xterm-256color"

// terminal is the agent's side of a process's terminal.
type terminal struct {
	// master is non-blocking. The pump of the output closes it.
	master *os.File
	raw    syscall.RawConn

	mu sync.Mutex
	// slave is held open while the process runs, and is -1 afterwards: otherwise the
	// output would end if the process had the terminal open nowhere for a moment.
	slave int
	// size is the size that was requested last.
	size TerminalSize
	// redraws are the changes of size under way that restore it.
	redraws int
}

// openTerminal makes a terminal.
func openTerminal(size TerminalSize) (*terminal, error) {
	ptmx, tty, err := pty.Open()
	if err != nil {
		return nil, fmt.Errorf("cannot open a terminal: %w", err)
	}
	defer ptmx.Close()
	defer tty.Close()
	// Package pty leaves both blocking, so the runtime would not use its poller for the
	// master.
	master, err := unix.FcntlInt(ptmx.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	slave, err := unix.FcntlInt(tty.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err == nil {
		err = unix.SetNonblock(master, true)
	}
	t := &terminal{master: os.NewFile(uintptr(master), "terminal"), slave: slave}
	if err == nil {
		t.raw, err = t.master.SyscallConn()
	}
	if err == nil {
		err = t.prepare(size)
	}
	if err != nil {
		t.close()
		return nil, fmt.Errorf("cannot prepare a terminal: %w", err)
	}
	return t, nil
}

// prepare sets the terminal up as terminal emulators do: the kernel's defaults,
// and that a backspace erases a whole character of UTF-8.
func (t *terminal) prepare(size TerminalSize) error {
	modes, err := unix.IoctlGetTermios(t.slave, unix.TCGETS)
	if err != nil {
		return os.NewSyscallError("tcgetattr", err)
	}
	modes.Iflag |= unix.IUTF8
	if err := unix.IoctlSetTermios(t.slave, unix.TCSETS, modes); err != nil {
		return os.NewSyscallError("tcsetattr", err)
	}
	return t.resize(size)
}

// close closes both ends.
func (t *terminal) close() {
	t.release()
	t.master.Close()
}

// release closes the process's end, once the process has it or has ended.
func (t *terminal) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.slave >= 0 {
		unix.Close(t.slave)
		t.slave = -1
	}
}

// resize changes the size. A redraw under way sets it when it ends.
func (t *terminal) resize(size TerminalSize) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.size = size
	if t.redraws > 0 {
		return nil
	}
	return t.set(size)
}

// redraw sets another size, and after a pause the last requested one.
func (t *terminal) redraw(size TerminalSize, pause time.Duration) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.size = size
	other := size
	if other.Rows > 1 {
		other.Rows--
	} else {
		other.Rows++
	}
	if err := t.set(other); err != nil {
		return err
	}
	t.redraws++
	time.AfterFunc(pause, t.redrawn)
	return nil
}

func (t *terminal) redrawn() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.redraws--
	if t.redraws == 0 {
		t.set(t.size) // the process may have ended meanwhile
	}
}

// set tells the kernel, which tells the processes (SIGWINCH). The caller holds
// the lock.
func (t *terminal) set(size TerminalSize) error {
	var err error
	closed := t.raw.Control(func(fd uintptr) {
		ws := unix.Winsize{Row: size.Rows, Col: size.Columns}
		err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &ws)
	})
	if closed != nil {
		return os.ErrProcessDone
	}
	return os.NewSyscallError("ioctl", err)
}

// endOfInput are the characters that end the input of a program that reads lines, as
// Ctrl-D does. In an unfinished line the first one only hands over the line, and a
// second one ends the input.
func (t *terminal) endOfInput(unfinished bool) []byte {
	eof := byte('D' & 0x1f)
	lines := true
	t.raw.Control(func(fd uintptr) {
		if modes, err := unix.IoctlGetTermios(int(fd), unix.TCGETS); err == nil {
			lines = modes.Lflag&unix.ICANON != 0
			if c := modes.Cc[unix.VEOF]; c != 0 {
				eof = c
			}
		}
	})
	if unfinished && lines {
		return []byte{eof, eof}
	}
	return []byte{eof}
}

// Terminal reports whether the process has a terminal.
func (p *Process) Terminal() bool { return p.terminal != nil }

// Resize changes the size of the process's terminal. The error without a terminal is
// [syscall.EINVAL], after the process's end [os.ErrProcessDone].
func (p *Process) Resize(size TerminalSize) error {
	return p.withTerminal("resize", func(t *terminal) error { return t.resize(size) })
}

// Redraw gives the terminal another size for redrawPause, and then this one,
// so that a program which fills the screen draws it. It does not wait for that.
// Errors are those of [Process.Resize].
func (p *Process) Redraw(size TerminalSize) error {
	return p.withTerminal("redraw", func(t *terminal) error { return t.redraw(size, p.lim.redrawPause) })
}

func (p *Process) withTerminal(what string, do func(*terminal) error) error {
	if p.terminal == nil {
		return fmt.Errorf("cannot %s exec %s: it has no terminal: %w", what, p.id, syscall.EINVAL)
	}
	err := os.ErrProcessDone
	if p.pin() {
		err = do(p.terminal)
		p.unpin()
	}
	if err != nil {
		return fmt.Errorf("cannot %s exec %s: %w", what, p.id, err)
	}
	return nil
}
