package podapi

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// Cmd is a command to run in the sandbox. Use it as exec.Cmd: set the fields, then
// call Run, Output, or Start and Wait; once. A connection that is cut costs a delay, but
// no byte of input or output, and Wait returns the end.
type Cmd struct {
	// Args is the command and its arguments, without a shell. A command without a
	// slash is looked up in the PATH of its environment, in the sandbox.
	Args []string
	// Script, when Args is empty, is run by bash, or by sh where there is no bash.
	Script string
	Dir    string   // the working directory; empty means the workdir
	Env    []string // NAME=VALUE for the sandbox's default environment; a later one wins
	// ClearEnv leaves out the default environment, but not what marks the agent's processes.
	ClearEnv bool
	// Stdin, if not nil, is read to its end into standard input, which is /dev/null
	// otherwise. The run does not wait for a Read when the process has ended.
	Stdin io.Reader
	// Stdout and Stderr get the output, each from one goroutine: the same one if they are the same writer.
	// Nil discards. An error of a Write kills the process, unless it is ErrDetached, and Wait returns it. A writer
	// that blocks holds up the process when its buffers are full, and the other output with it.
	Stdout, Stderr io.Writer
	// StdoutAt and StderrAt are as in [AttachOptions]: a repeated command may have lost output.
	StdoutAt, StderrAt func(offset int64)
	// Timeout ends the process and all that it started: TERM, and KILL a second later. The output so far is
	// kept, and the reason is [TimedOut]. 0 means never. If the agent has not said how the process ended
	// after ResumeTimeout, or 10 s if that is longer, Wait returns [ErrUnavailable].
	Timeout time.Duration
	// Terminal, if not nil, gives the process a terminal of this size. All its
	// output is standard output then. The caller sets its own terminal to raw mode.
	Terminal *TerminalSize
	Rlimits  []Rlimit // of the process and of what it starts
	// ResumeTimeout is how long the client tries to connect after a cut. Then Wait returns [ErrUnavailable],
	// and the process runs on. 0 means [DefaultResumeTimeout], less than 0 that a cut ends the run at once.
	ResumeTimeout time.Duration
	ID            string   // the exec id, a UUIDv7; Start chooses one when it is empty
	Process       *Process // the run, once Start has succeeded

	client  *Client
	ctx     context.Context
	pipes   []io.Closer // the run's ends of pipes, closed when it has ended
	started bool
}

// Command returns the command that runs name with args in the sandbox. If ctx ends
// before the process does, the client has the agent kill the process, or never start
// it. If the agent does not answer within [KillGrace], Wait returns, and the client
// goes on trying for a minute while it is open.
func (c *Client) Command(ctx context.Context, name string, args ...string) *Cmd {
	return &Cmd{client: c, ctx: ctx, Args: append([]string{name}, args...)}
}

// Shell returns the command that runs a shell script in the sandbox: by bash,
// or by sh where there is no bash. ctx is as in [Client.Command].
func (c *Client) Shell(ctx context.Context, script string) *Cmd {
	return &Cmd{client: c, ctx: ctx, Script: script}
}

// Start starts the process. If the command does not exist (fs.ErrNotExist) or cannot
// be executed, the error is an *fs.PathError with Op "exec". If the connection is cut
// before the agent has answered, Start tries again, and the command still runs once. If
// the agent has restarted meanwhile, the error is [ErrAgentLost], and the command ran
// once or not at all.
func (c *Cmd) Start() error {
	s, err := c.start()
	if err == nil {
		go c.Process.follow(s)
	}
	return err
}

func (c *Cmd) start() (*execStream, error) {
	if c.started {
		return nil, errors.New("podapi: command already started")
	}
	c.started = true
	p := newProcess(c.ctx, c.client, "exec", c.name())
	p.id, p.pipes, p.resumeTimeout, p.timeout = c.ID, c.pipes, c.ResumeTimeout, c.Timeout
	p.stdinFrom, p.stdoutTo, p.stderrTo = c.Stdin, c.Stdout, c.Stderr
	p.outputAt = [2]func(int64){c.StdoutAt, c.StderrAt}
	p.command, p.limited = c.request, len(c.Rlimits) > 0
	s, err := p.open()
	c.ID = p.id
	if err != nil {
		return nil, err
	}
	c.Process = p
	return s, nil
}

// request returns the description of the command for the agent.
func (c *Cmd) request() (*pb.ExecStart, error) {
	start := &pb.ExecStart{
		Argv: toBytes(c.Args), Script: []byte(c.Script), Dir: []byte(c.Dir),
		Env: toBytes(c.Env), ClearEnv: c.ClearEnv, Stdin: c.Stdin != nil, Timeout: int64(c.Timeout),
		Rlimits: rlimitsToProto(c.Rlimits),
	}
	if c.Terminal != nil {
		if err := c.Terminal.check(); err != nil {
			return nil, err
		}
		start.Terminal = c.Terminal.proto()
	}
	return start, nil
}

// Run starts the process and waits for its end.
func (c *Cmd) Run() error {
	s, err := c.start()
	if err != nil {
		return err
	}
	c.Process.follow(s)
	return c.Wait()
}

// Wait is [Process.Wait].
func (c *Cmd) Wait() error {
	if c.Process == nil {
		return errors.New("podapi: command not started")
	}
	return c.Process.Wait()
}

// name is the command's name in errors.
func (c *Cmd) name() string {
	if len(c.Args) > 0 {
		return c.Args[0]
	}
	return "script"
}

// String returns the command as a person would type it, unquoted.
func (c *Cmd) String() string {
	if len(c.Args) == 0 {
		return c.Script
	}
	return strings.Join(c.Args, " ")
}
