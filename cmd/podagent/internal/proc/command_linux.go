package proc

import (
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/procfs"
)

// command is the program that a spec executes, with its arguments.
type command struct {
	file string
	argv []string
	// text is a script that is too long for an argument. The process gets it in the
	// file script, as descriptor 3.
	text   string
	script *os.File
}

// open makes the file of a long script.
func (c *command) open() (err error) {
	if c.text != "" {
		c.script, err = scriptFile(c.text)
	}
	return err
}

func (c *command) close() {
	if c.script != nil {
		c.script.Close()
	}
}

// command finds what to execute. Its errors come from [Spec.startError].
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
	// The shell opens the script by its path and reads it from a descriptor of its
	// own. Sourcing keeps $0 as it is for a short script.
	return &command{file: file, argv: []string{name, "-c", ". /proc/self/fd/3"}, text: s.Script}, nil
}

// scriptFile puts a script into a file without a name. The script first closes that
// file, so that its children do not inherit it. It does so on its first line, so that
// line numbers stay right.
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

// touch is what a start touches before its turn. If the server of a file system does not
// answer, the start waits there, and keeps no turn from others.
type touch struct {
	dir, program string
	at           time.Time
}

// touch touches what a start needs, unless another start did so just now.
func (m *Manager) touch(s *Spec, c *command) {
	t := touch{s.Dir, s.program(c), time.Now()}
	if last := m.touched.Load(); last == nil || !last.covers(t) {
		t.open()
		m.touched.Store(&t)
	}
}

// covers reports whether a start may rely on an earlier one.
func (t *touch) covers(later touch) bool {
	return t.dir == later.dir && t.program == later.program && later.at.Sub(t.at) < touchFor
}

// open opens the directory and the program, and closes them again. The fork reports errors.
func (t *touch) open() {
	if dir, err := unix.Open(t.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err == nil {
		unix.Close(dir)
	}
	program, err := unix.Open(t.program, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(program)
	if !isRegular(program) { // opening a device or a FIFO may have effects
		return
	}
	if content, err := unix.Open(procfs.DescriptorPath(program), unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
		unix.Close(content)
	}
}

// program returns the path of a command's program, whatever the agent's own directory is.
func (s *Spec) program(c *command) string {
	if filepath.IsAbs(c.file) {
		return c.file
	}
	return filepath.Join(s.Dir, c.file)
}

func isRegular(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG
}
