package proc

import (
	"errors"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// stdio is the standard files of a process: the agent's ends of the pipes, and
// the process's.
type stdio struct {
	stdin, stdout, stderr *os.File
	child                 [3]*os.File
}

// openStdio makes the pipes. Only the agent's ends are non-blocking: the
// process must find them as it would in a shell.
func openStdio(stdin bool) (io *stdio, err error) {
	io = &stdio{}
	defer func() {
		if err != nil {
			io.close()
		}
	}()
	if stdin {
		io.child[0], io.stdin, err = openPipe(1)
	} else {
		io.child[0], err = os.Open(os.DevNull)
	}
	if err != nil {
		return io, err
	}
	if io.stdout, io.child[1], err = openPipe(0); err != nil {
		return io, err
	}
	io.stderr, io.child[2], err = openPipe(0)
	return io, err
}

// openPipe makes a pipe of which the end ours (0 reads, 1 writes) is the
// agent's.
func openPipe(ours int) (r, w *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	err = unix.SetNonblock(fds[ours], true)
	r, w = os.NewFile(uintptr(fds[0]), "pipe"), os.NewFile(uintptr(fds[1]), "pipe")
	if err != nil {
		r.Close()
		w.Close()
		return nil, nil, os.NewSyscallError("fcntl", err)
	}
	return r, w, nil
}

func (s *stdio) closeChild() {
	for _, f := range s.child {
		if f != nil {
			f.Close()
		}
	}
}

func (s *stdio) close() {
	s.closeChild()
	for _, f := range []*os.File{s.stdin, s.stdout, s.stderr} {
		if f != nil {
			f.Close()
		}
	}
}

// enlarge lets a pipe hold more. It is an improvement only: the kernel refuses
// it to a user who has many large pipes.
func enlarge(f *os.File) {
	if raw, err := f.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) { unix.FcntlInt(fd, unix.F_SETPIPE_SZ, pipeSize) })
	}
}

// source is the agent's end of an output pipe.
type source struct {
	file *os.File
	raw  syscall.RawConn
	pool *buffers
	wide bool
}

func newSource(f *os.File, pool *buffers) (*source, error) {
	raw, err := f.SyscallConn()
	return &source{file: f, raw: raw, pool: pool}, err
}

// read waits for output and passes it to use. It takes a buffer only when
// there is something to read. At the end of the output it returns [io.EOF].
func (s *source) read(use func([]byte)) error {
	var buf *chunk
	var n int
	var err error
	wait := s.raw.Read(func(fd uintptr) bool {
		buf = s.pool.get()
		n, err = readRetry(int(fd), buf[:])
		if errors.Is(err, unix.EAGAIN) {
			s.pool.put(buf)
			return false
		}
		return true
	})
	if wait != nil {
		return wait
	}
	defer s.pool.put(buf)
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

// pending is the number of bytes that wait in the pipe.
func (s *source) pending() int64 {
	n := 0
	s.raw.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }) // FIONREAD
	return int64(n)
}
