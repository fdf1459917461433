package proc

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// command is what is executed for a spec.
type command struct {
	file string
	argv []string
	// text is a script that is too long for an argument, and script the file that
	// is passed as descriptor 3 for it.
	text   string
	script *os.File
	// held are the descriptors of its program and interpreters.
	held []int
}

// open makes the file of a long script.
func (c *command) open() (err error) {
	if c.text != "" {
		c.script, err = scriptFile(c.text)
	}
	return err
}

func (c *command) close() {
	c.release()
	if c.script != nil {
		c.script.Close()
	}
}

// command finds what to execute. Its errors are those of [Spec.startError].
func (s *Spec) command() (*command, error) {
	if s.Script != "" {
		return s.shell()
	}
	file, err := s.lookup(s.Argv[0])
	if err != nil {
		return nil, s.startError(s.Argv[0], err)
	}
	return &command{file: file, argv: s.Argv}, nil
}

func (s *Spec) shell() (*command, error) {
	name := "bash"
	file, err := s.lookup(name)
	if err != nil {
		name = "sh"
		file, err = s.lookup(name)
	}
	if err != nil {
		return nil, s.startError(name, err)
	}
	if len(s.Script) <= inlineScript {
		return &command{file: file, argv: []string{name, "-c", s.Script}}, nil
	}
	// The shell opens the script by its path and reads it from a descriptor of
	// its own. To source it keeps $0 as it is for a short script.
	return &command{file: file, argv: []string{name, "-c", ". /proc/self/fd/3"}, text: s.Script}, nil
}

// scriptFile puts a script into a file without a name. The first thing that
// the script does is to close it, so that its children do not inherit it; that
// is on the first line, so that line numbers stay right.
func scriptFile(script string) (*os.File, error) {
	fd, err := unix.MemfdCreate("script", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, &fs.PathError{Op: "memfd_create", Path: "script", Err: err}
	}
	f := os.NewFile(uintptr(fd), "script")
	for _, part := range []string{"exec 3<&-; ", script} {
		if _, err := f.WriteString(part); err != nil {
			f.Close()
			return nil, err
		}
	}
	return f, nil
}

// touch opens and holds what a start needs as the kernel will, so that what keeps it
// waiting does so here: a file system whose server is away, or a lease that a process
// has on its program. While a fork waits for its exec, the runtime can't take the
// processor from who forks, and with it neither collect garbage, which would stop the
// whole agent. What fails is left to the kernel.
func (s *Spec) touch(c *command) {
	if dir, err := unix.Open(s.Dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err == nil {
		unix.Close(dir)
	}
	_ = c.hold(s.Dir, true)
}

// hold opens the program and its interpreters, as far as they can be read, and keeps
// them open: meanwhile nobody can take a lease on them. It waits for who has one, or
// returns EAGAIN.
func (c *command) hold(dir string, wait bool) error {
	file := c.file
	for depth := 0; file != "" && depth < interpreterDepth; depth++ {
		if !filepath.IsAbs(file) {
			file = filepath.Join(dir, file)
		}
		if !isRegular(file) { // to open a device or a FIFO may do more
			return nil
		}
		fd, err := unix.Open(file, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if errors.Is(err, unix.EAGAIN) && wait {
			fd, err = unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		}
		if errors.Is(err, unix.EAGAIN) {
			return err
		}
		if err != nil {
			return nil
		}
		c.held = append(c.held, fd)
		file = interpreter(fd)
	}
	return nil
}

func (c *command) release() {
	for _, fd := range c.held {
		unix.Close(fd)
	}
	c.held = nil
}

func isRegular(file string) bool {
	var st unix.Stat_t
	return unix.Stat(file, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG
}
