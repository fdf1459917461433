package podapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Output runs the command and returns its standard output. An *[ExitError]
// carries head and tail of standard error, unless c.Stderr was set.
func (c *Cmd) Output() ([]byte, error) {
	if c.Stdout != nil {
		return nil, errors.New("podapi: Stdout already set")
	}
	var stdout bytes.Buffer
	c.Stdout = &stdout
	var stderr *headTail
	if c.Stderr == nil {
		stderr = &headTail{limit: MaxExitStderr / 2}
		c.Stderr = stderr
	}
	err := c.Run()
	if exit, ok := errors.AsType[*ExitError](err); ok && stderr != nil {
		exit.Stderr = stderr.Bytes()
	}
	return stdout.Bytes(), c.whole(err)
}

// whole returns err, or an error if bytes of the output are missing.
func (c *Cmd) whole(err error) error {
	if missing := c.Process.Omitted(); err == nil && missing > 0 {
		err = fmt.Errorf("%d bytes of the output of %s are missing: %w", missing, c.name(), ErrCut)
	}
	return err
}

// CombinedOutput runs the command and returns its standard output and standard
// error together, in the order in which they arrive.
func (c *Cmd) CombinedOutput() ([]byte, error) {
	if c.Stdout != nil || c.Stderr != nil {
		return nil, errors.New("podapi: Stdout or Stderr already set")
	}
	var both bytes.Buffer
	c.Stdout, c.Stderr = &both, &both
	err := c.Run()
	return both.Bytes(), c.whole(err)
}

// StdinPipe returns a pipe into standard input. Close it to end the input.
func (c *Cmd) StdinPipe() (io.WriteCloser, error) {
	if c.Stdin != nil || c.started {
		return nil, errors.New("podapi: StdinPipe after Stdin was set or the command started")
	}
	r, w := io.Pipe()
	c.Stdin = r
	c.pipes = append(c.pipes, r)
	return w, nil
}

// StdoutPipe returns a pipe out of standard output. Read it to its end before Wait,
// and two pipes at once, as with package exec. When the context has ended, the pipe is
// closed after [KillGrace].
func (c *Cmd) StdoutPipe() (io.ReadCloser, error) { return c.outputPipe(&c.Stdout) }

// StderrPipe is StdoutPipe for standard error.
func (c *Cmd) StderrPipe() (io.ReadCloser, error) { return c.outputPipe(&c.Stderr) }

func (c *Cmd) outputPipe(to *io.Writer) (io.ReadCloser, error) {
	if *to != nil || c.started {
		return nil, errors.New("podapi: pipe after the output was set or the command started")
	}
	r, w := io.Pipe()
	*to = pipeWriter{w}
	c.pipes = append(c.pipes, w)
	return r, nil
}
