// Package procfs reads what /proc shows of processes (proc(5)). Nothing else in this
// module reads files there that belong to other processes, because such a process decides
// what they hold: its environment may be gigabytes long without a page of memory behind
// it. So each method reads the beginning of a file, up to 64 KiB, with one system call;
// MapsToWrite, Listeners and Sockets read more, each up to a bound.
//
// A program that looks for processes by a variable in their environment must put it in
// front of all others when it starts them.
package procfs

import (
	"bytes"
	"errors"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// root is where the file system is mounted.
const root = "/proc"

// FS is the file system. It can keep a descriptor in reserve, so that processes can be
// found also when the program has no descriptor left. The zero value is ready, without a
// reserve. Its methods may be called concurrently.
type FS struct {
	mu sync.Mutex
	// spare is the reserve; 0, which the runtime holds open, means none.
	spare int
	// buffers has the buffers of maxRead bytes that nobody uses, as *[maxRead]byte.
	buffers sync.Pool
}

// Reserve opens the spare descriptor if it is missing.
func (fs *FS) Reserve() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.refill()
}

// refill is Reserve for callers that hold the lock.
func (fs *FS) refill() {
	if fs.spare != 0 {
		return
	}
	if fd, err := open(root, unix.O_RDONLY); err == nil {
		fs.spare = fd
	}
}

// Close gives the spare descriptor back.
func (fs *FS) Close() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.drop()
}

// drop is Close for callers that hold the lock.
func (fs *FS) drop() {
	if fs.spare != 0 {
		unix.Close(fs.spare)
		fs.spare = 0
	}
}

// Starved reports whether an error is about the resources of the program or the machine,
// and says nothing about the process.
func Starved(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}

// with opens a file or directory, calls use, and closes it.
func (fs *FS) with(path string, use func(fd int) error) error {
	fd, err := open(path, unix.O_RDONLY)
	if Starved(err) {
		return fs.withSpare(path, use)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return use(fd)
}

// withSpare gives up the spare descriptor and opens a file instead. The file stays
// open as the new spare, so that nobody else gets the descriptor.
func (fs *FS) withSpare(path string, use func(fd int) error) error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.drop()
	fd, err := open(path, unix.O_RDONLY)
	if err != nil {
		fs.refill()
		return err
	}
	fs.spare = fd
	return use(fd)
}

// read calls use with the beginning of a file, which is valid until use returns.
func (fs *FS) read(path string, use func(text []byte) error) error {
	return fs.with(path, func(fd int) error {
		buf := fs.buffer()
		defer fs.buffers.Put(buf)
		n, err := retry(func() (int, error) { return unix.Pread(fd, buf[:], 0) })
		if err != nil {
			return err
		}
		return use(buf[:n])
	})
}

// lines calls visit with each whole line of a file, which is valid until visit returns. It stops reading after most bytes,
// or at a line that is longer than the buffer, and says then that there is more.
func (fs *FS) lines(path string, most int, visit func(line []byte)) (more bool, err error) {
	err = fs.with(path, func(fd int) error {
		buf := fs.buffer()
		defer fs.buffers.Put(buf)
		rest := 0 // bytes of a line whose end is still to come
		for read := 0; read < most && rest < len(buf); {
			n, err := retry(func() (int, error) { return unix.Read(fd, buf[rest:]) })
			if n <= 0 || err != nil {
				return err
			}
			read += n
			text := buf[:rest+n]
			for {
				line, after, whole := bytes.Cut(text, []byte("\n"))
				if !whole {
					break
				}
				visit(line)
				text = after
			}
			rest = copy(buf[:], text)
		}
		more = true
		return nil
	})
	return more, err
}

func (fs *FS) buffer() *[maxRead]byte {
	if buf, ok := fs.buffers.Get().(*[maxRead]byte); ok {
		return buf
	}
	return new([maxRead]byte)
}

// pathOf returns the path of a process's file.
func pathOf(pid int, name string) string { return root + "/" + strconv.Itoa(pid) + "/" + name }

func open(path string, flags int) (int, error) {
	return retry(func() (int, error) { return unix.Open(path, flags|unix.O_CLOEXEC, 0) })
}

// retry repeats a system call that a signal interrupted before it did anything.
func retry(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); err != unix.EINTR {
			return n, err
		}
	}
}
