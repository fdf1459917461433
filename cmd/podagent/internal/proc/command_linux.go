package proc

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// command is what is executed for a spec.
type command struct {
	file string
	argv []string
	// script is passed as descriptor 3 where it is too long for an argument.
	script *os.File
}

func (c *command) close() {
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
	script, err := scriptFile(s.Script)
	if err != nil {
		return nil, err
	}
	// The shell opens the script by its path and reads it from a descriptor of
	// its own. To source it keeps $0 as it is for a short script.
	return &command{file: file, argv: []string{name, "-c", ". /proc/self/fd/3"}, script: script}, nil
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
