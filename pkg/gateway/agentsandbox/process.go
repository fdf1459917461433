package agentsandbox

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/internal/faces"
	"github.com/podagent/podagent/pkg/gateway/internal/stdin"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
)

// execute runs a command to its end. A caller that leaves ends it.
func (c *grpcCall) execute(message []byte) error {
	in, err := parseStart(message)
	if err == nil {
		err = in.config.check()
	}
	if err != nil {
		return err
	}
	return c.on(gateway.Detail{Args: in.config.command}, func(s *launcher.Sandbox) error {
		dir, err := within(s.Workdir, in.config.cwd)
		if err != nil {
			return err
		}
		ran, err := run(c.ctx, c.Call, s, &command{words: in.config.command, env: in.config.env, dir: dir, limit: messageOutput})
		if err != nil {
			return err
		}
		return c.send(executeResponse(ran))
	})
}

// start runs a command, and answers with its output as it comes. The command ends with the call: nobody
// could find it again by sandboxd's API.
func (c *grpcCall) start(message []byte) error {
	in, err := parseStart(message)
	if err == nil {
		err = errors.Join(in.config.check(), in.pty.check())
	}
	if err != nil {
		return err
	}
	return c.on(gateway.Detail{Args: in.config.command}, func(s *launcher.Sandbox) error {
		dir, err := within(s.Workdir, in.config.cwd)
		if err != nil {
			return err
		}
		cmd := s.Command(c.ctx, in.config.command[0], in.config.command[1:]...)
		cmd.Env, cmd.Dir, cmd.Terminal = in.config.env, dir, in.pty.size()
		open, end := stdin.Open(nil) // nothing comes by it: WriteStdin attaches to the process
		defer end()
		cmd.Stdin = open
		return c.follow(cmd)
	})
}

// follow starts a command and sends its events.
func (c *grpcCall) follow(cmd *podapi.Cmd) error {
	out := &events{call: c, begun: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &eventWriter{out, stdoutEvent}, &eventWriter{out, stderrEvent}
	if err := cmd.Start(); err != nil {
		return err
	}
	c.Started(c.ctx, cmd.Process)
	failed := c.send(initEvent(cmd.Process.PID()))
	close(out.begun)
	err := cmd.Wait()
	status := cmd.Process.Status()
	if status != nil {
		c.Exited(c.ctx, status)
	}
	_, ended := errors.AsType[*podapi.ExitError](err)
	switch {
	case c.ctx.Err() != nil:
		return context.Cause(c.ctx)
	case failed != nil:
		return failed
	case err != nil && !ended:
		return err
	}
	if err := checkWhole(status); err != nil {
		return err
	}
	return c.send(exitEvent(exitCode(status)))
}

// exitCode is the code of a process as sandboxd has it: -1 if it did not exit by itself.
func exitCode(s *podapi.ExitStatus) int {
	if s.Reason != podapi.Exited {
		return -1
	}
	return s.Code
}

// events are those of a process. Its outputs are written concurrently.
type events struct {
	call  *grpcCall
	begun chan struct{} // closed when the caller was told that the process has started
	mu    sync.Mutex
}

type eventWriter struct {
	*events
	event func([]byte) []byte
}

// Write implements [io.Writer]. Its error ends the process.
func (w *eventWriter) Write(p []byte) (n int, err error) {
	<-w.begun
	w.mu.Lock()
	defer w.mu.Unlock()
	for n < len(p) {
		part := p[n:min(len(p), n+chunkLimit)]
		if err := w.call.send(w.event(part)); err != nil {
			return n, err
		}
		n += len(part)
	}
	return n, nil
}

// check says what is wrong with a command; nil if the sandbox can tell.
func (c *processConfig) check() error {
	if len(c.command) == 0 || c.command[0] == "" {
		return faces.BadRequest("command is required")
	}
	return nil
}

// checkVariable refuses what is no name of a variable.
func checkVariable(name string) error {
	if name == "" || strings.Contains(name, "=") {
		return faces.BadRequest("the environment variable %.40q has no name, or a = in it", name)
	}
	return nil
}

// check refuses a size that no terminal has; nil is none.
func (s *terminalSize) check() error {
	if s != nil && max(s.cols, s.rows) > math.MaxUint16 {
		return faces.BadRequest("a terminal has at most %d columns and rows", math.MaxUint16)
	}
	return nil
}

// size returns the size of a terminal: that of old terminals, unless it is given. nil is none.
func (s *terminalSize) size() *podapi.TerminalSize {
	switch {
	case s == nil:
		return nil
	case s.cols == 0 || s.rows == 0:
		return &podapi.TerminalSize{Rows: 24, Columns: 80}
	}
	return &podapi.TerminalSize{Rows: int(s.rows), Columns: int(s.cols)}
}
