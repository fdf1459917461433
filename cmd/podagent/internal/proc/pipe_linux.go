package proc

import (
	"errors"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/cmd/podagent/internal/proc/journal"
)

// stdio is the standard files of a process: the agent's ends, and the
// process's.
type stdio struct {
	// stdin is nil without standard input. With a terminal it is the master.
	stdin *os.File
	// outputs are stdout and stderr. A terminal has only the first.
	outputs  [2]*source
	terminal *terminal
	// child are the process's ends.
	child [3]int
}

// openStdio makes the standard files of a process. Only the agent's ends are
// non-blocking: the process must find its own as it would in a shell.
func openStdio(spec *Spec) (io *stdio, err error) {
	io = &stdio{child: [3]int{-1, -1, -1}}
	if spec.Terminal != nil {
		return io, io.openTerminal(*spec.Terminal)
	}
	defer func() {
		if err != nil {
			io.close()
		}
	}()
	if spec.Stdin {
		var ours int
		if io.child[0], ours, err = openPipe(1); err == nil {
			io.stdin = os.NewFile(uintptr(ours), "pipe")
		}
	} else {
		io.child[0], err = openNull()
	}
	for i := 0; i < len(io.outputs) && err == nil; i++ {
		var ours int
		if io.child[i+1], ours, err = openPipe(0); err == nil {
			io.outputs[i] = &source{fd: ours}
		}
	}
	return io, err
}

func openNull() (int, error) {
	fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: os.DevNull, Err: err}
	}
	return fd, nil
}

func (s *stdio) openTerminal(size TerminalSize) (err error) {
	s.terminal, err = openTerminal(size)
	if err != nil {
		return err
	}
	s.stdin = s.terminal.master
	s.outputs[0] = &source{file: s.terminal.master, raw: s.terminal.raw}
	s.child = [3]int{s.terminal.slave, s.terminal.slave, s.terminal.slave}
	return nil
}

// openPipe makes a pipe, and returns the process's end and the agent's. The agent's is
// the end with the number end: 0 reads, 1 writes.
func openPipe(end int) (theirs, ours int, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return -1, -1, os.NewSyscallError("pipe2", err)
	}
	// A new pipe has no other flags that could be set.
	if _, err := unix.FcntlInt(uintptr(fds[end]), unix.F_SETFL, unix.O_NONBLOCK); err != nil {
		unix.Close(fds[0])
		unix.Close(fds[1])
		return -1, -1, os.NewSyscallError("fcntl", err)
	}
	return fds[1-end], fds[end], nil
}

// files are the process's descriptors, from 0 on; extra follows if not nil.
func (s *stdio) files(extra *os.File) []int {
	files := make([]int, 0, len(s.child)+1)
	for _, fd := range s.child {
		files = append(files, fd)
	}
	if extra != nil {
		files = append(files, int(extra.Fd()))
	}
	return files
}

// closeChild closes the process's ends of the pipes. A terminal closes its own.
func (s *stdio) closeChild() {
	if s.terminal != nil {
		return
	}
	for _, fd := range s.child {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

func (s *stdio) close() {
	s.closeChild()
	if s.terminal != nil {
		s.terminal.close()
		return
	}
	if s.stdin != nil {
		s.stdin.Close()
	}
	for _, out := range s.outputs {
		if out != nil {
			out.close()
		}
	}
}

// enlarge lets a pipe hold more. The kernel refuses that to a user who has many large
// pipes, and the pipe then stays as it is.
func enlarge(f *os.File) {
	if raw, err := f.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) { unix.FcntlInt(fd, unix.F_SETPIPE_SZ, pipeSize) })
	}
}

// source is the agent's end of an output pipe.
type source struct {
	// fd is the pipe until watch, and file from then on.
	fd   int
	file *os.File
	raw  syscall.RawConn
	wide bool
}

// watch hands the pipe to the runtime's poller, which waits for output without a
// thread. A short command is cheaper without the poller.
func (s *source) watch() {
	if s.file == nil {
		s.file = os.NewFile(uintptr(s.fd), "pipe")
		s.raw, _ = s.file.SyscallConn() // an open file has one
	}
}

func (s *source) close() {
	if s.file != nil {
		s.file.Close()
	} else {
		unix.Close(s.fd)
	}
}

// read waits for output and passes it to use. It takes a buffer only when
// there is something to read. At the end of the output it returns [io.EOF].
func (s *source) read(chunks *journal.Chunks, use func([]byte)) error {
	var buf *journal.Chunk
	var n int
	var err error
	wait := s.raw.Read(func(fd uintptr) bool {
		buf = chunks.Get()
		n, err = readRetry(int(fd), buf[:])
		if errors.Is(err, unix.EAGAIN) {
			chunks.Put(buf)
			return false
		}
		return true
	})
	if wait != nil {
		return wait
	}
	defer chunks.Put(buf)
	switch {
	case err != nil:
		return err
	case n == 0:
		return io.EOF
	case n == len(buf) && !s.wide:
		s.wide = true
		enlarge(s.file)
	}
	use(buf[:n])
	return nil
}

func readRetry(fd int, b []byte) (int, error) {
	for {
		n, err := unix.Read(fd, b)
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// ended reports whether nothing waits in the pipe, and nobody can write to it any more.
func (s *source) ended() bool {
	fds := []unix.PollFd{{Events: unix.POLLIN}}
	s.raw.Control(func(fd uintptr) {
		fds[0].Fd = int32(fd)
		unix.Poll(fds, 0)
	})
	return fds[0].Revents&(unix.POLLIN|unix.POLLHUP) == unix.POLLHUP
}

// pending is the number of bytes that wait in the pipe.
//
// The kernel moves what a process writes to a terminal to the terminal's reader a little
// later, when it gets to it. FIONREAD counts only what has been moved; poll moves it.
func (s *source) pending() int64 {
	n := 0
	s.raw.Control(func(fd uintptr) {
		unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		n, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) // FIONREAD
	})
	return int64(n)
}
