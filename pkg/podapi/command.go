package podapi

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// Cmd is a command in the sandbox, being prepared or run. It is used as
// exec.Cmd is: set the fields, then Run, Output, or Start and Wait; once.
//
// A connection that is cut while the command runs is made again, and the run
// goes on where it was: each byte of output is written once, each byte of
// standard input is read once by the process, and Wait returns the true end.
// See ResumeTimeout.
type Cmd struct {
	// Args is the command and its arguments. A command without a slash is
	// looked up in the PATH of its environment, in the sandbox. No shell
	// sees them.
	Args []string
	// Script, when Args is empty, is run by bash, or by sh where there is no
	// bash.
	Script string
	// Dir is the working directory; empty means the workdir.
	Dir string
	// Env adds NAME=VALUE to the sandbox's default environment; a later value
	// wins.
	Env []string
	// ClearEnv leaves the default environment out. What remains are Env and
	// the markers by which the agent finds its processes.
	ClearEnv bool
	// Stdin, if not nil, is read to its end into standard input. Otherwise
	// standard input is /dev/null. A Read that is under way when the process
	// ends is not waited for.
	Stdin io.Reader
	// Stdout and Stderr get the output, each from one goroutine: the same
	// one where they are the same writer. Nil discards. An error of a Write
	// is what Wait returns; the process is killed then. A writer that does not
	// return holds up the process when its buffers are full, and the other
	// output with it.
	Stdout, Stderr io.Writer
	// Timeout ends the process and all that it started: TERM, and KILL a second
	// later. The output so far is kept, and the reason is [TimedOut]. 0 means never.
	Timeout time.Duration
	// Terminal, if not nil, gives the process a terminal of this size. All its
	// output is standard output then. The caller's own terminal, if it has one,
	// is for the caller to set to raw mode.
	Terminal *TerminalSize
	// Rlimits are the process's resource limits, which what it starts
	// inherits.
	Rlimits []Rlimit
	// ResumeTimeout is how long after each cut a connection is sought, before
	// the run is given up: then Wait returns [ErrUnavailable], and the process
	// runs on. 0 means [DefaultResumeTimeout]; less than 0 gives up at once.
	ResumeTimeout time.Duration
	// ID is the exec id, a UUIDv7. Start chooses one when it is empty.
	ID string

	client *Client
	ctx    context.Context
	attach *AttachOptions // nil for a command that is to be started

	// life is the context of all streams of the run: its end, by giveUp, ends
	// them, and not the process.
	life    context.Context
	giveUp  context.CancelFunc
	calm    context.Context // ends, by hurry, when the run is to end
	hurry   context.CancelFunc
	unwatch func() bool // ends the watch over ctx
	done    chan struct{}

	reader  string          // tells the agent that its streams are of one reader
	boot    string          // the agent that has the process
	started *pb.ExecStarted // the agent's first answer; nil before
	control control
	stdin   *stdinSender
	output  *outputs
	tries   int // to connect, since something last arrived

	status  *ExitStatus
	err     error // why the run ended without a status of the agent's
	failing sync.Once
	failed  error       // why output could not be delivered
	pipes   []io.Closer // closed when the output has ended
	waited  bool
}

// Command returns the command that runs name with args in the sandbox. When
// ctx ends before the process does, the process is killed; if there is no
// connection by which to do so within [KillGrace], it runs on.
func (c *Client) Command(ctx context.Context, name string, args ...string) *Cmd {
	return &Cmd{client: c, ctx: ctx, Args: append([]string{name}, args...)}
}

// Shell returns the command that runs a shell script in the sandbox: by bash,
// or by sh where there is no bash. ctx is as in [Client.Command].
func (c *Client) Shell(ctx context.Context, script string) *Cmd {
	return &Cmd{client: c, ctx: ctx, Script: script}
}

// Start starts the process. That the command is not there (fs.ErrNotExist) or
// may not be executed is an error of Start, an *fs.PathError with Op "exec".
//
// If the connection is cut before the agent has answered, the start is
// repeated, and the command still runs once: the agent knows the id. An agent
// that has restarted meanwhile does not, so that a start which may have reached
// another one before is [ErrAgentLost] then, and the command ran once or not
// at all.
func (c *Cmd) Start() error {
	s, err := c.start()
	if err == nil {
		go c.follow(s)
	}
	return err
}

func (c *Cmd) start() (*execStream, error) {
	if c.done != nil {
		return nil, errors.New("podapi: command already started")
	}
	c.done, c.reader = make(chan struct{}), rand.Text()
	c.life, c.giveUp = context.WithCancel(context.WithoutCancel(c.ctx))
	c.calm, c.hurry = context.WithCancel(c.life)
	c.unwatch = func() bool { return true }
	s, err := c.open()
	if err != nil {
		if c.ctx.Err() != nil {
			err = c.ctx.Err()
		}
		c.err = err
		c.finish()
		return nil, c.wrap(err)
	}
	return s, nil
}

// op and name are what errors call the run.
func (c *Cmd) op() string {
	if c.attach != nil {
		return "attach"
	}
	return "exec"
}

func (c *Cmd) name() string {
	switch {
	case c.attach != nil:
		return c.ID
	case len(c.Args) > 0:
		return c.Args[0]
	}
	return "script"
}

func (c *Cmd) wrap(err error) error { return pathError(c.op(), c.name(), err) }

// Wait waits for the end of the process and of its output. It returns nil for
// exit code 0, an *[ExitError] for any other end, and another error when the
// end is not known or the run was not whole: output could not be written, or
// Stdin could not be read; there was no connection for ResumeTimeout
// ([ErrUnavailable]); the agent has restarted, and the process is lost
// ([ErrAgentLost], with the platform's reason if it has one); the agent was told
// to forget the process ([ErrExecExpired]); or the caller has detached
// ([ErrDetached]).
func (c *Cmd) Wait() error {
	if c.done == nil {
		return errors.New("podapi: command not started")
	}
	if c.waited {
		return errors.New("podapi: Wait was already called")
	}
	c.waited = true
	<-c.done
	ctxErr := c.ctx.Err()
	switch {
	case c.failed != nil && ctxErr == nil:
		return fmt.Errorf("writing the output of %s: %w", c.name(), c.failed)
	case c.err == ErrDetached && ctxErr != nil:
		return fmt.Errorf("%w: %w", ErrDetached, ctxErr)
	case c.err == ErrDetached:
		return ErrDetached
	case c.err != nil && ctxErr != nil:
		return &fs.PathError{Op: c.op(), Path: c.name(), Err: ctxErr}
	case c.err != nil:
		return c.wrap(c.err)
	case !c.status.Success() && c.attach != nil: // nobody killed it for the context's sake
		return &ExitError{ExitStatus: *c.status}
	case !c.status.Success():
		return &ExitError{ExitStatus: *c.status, cause: ctxErr}
	case c.stdin != nil && c.stdin.failure() != nil:
		return fmt.Errorf("reading standard input for %s: %w", c.name(), c.stdin.failure())
	}
	return nil
}

// Run starts the process and waits for its end.
func (c *Cmd) Run() error {
	s, err := c.start()
	if err != nil {
		return err
	}
	c.follow(s)
	return c.Wait()
}

// Signal sends a signal, by its number on Linux, to the process's whole tree.
// It returns when the signal was sent. When the process has ended it returns
// os.ErrProcessDone. A signal whose answer is cut off is sent again, so that
// the process may get it twice.
func (c *Cmd) Signal(sig syscall.Signal) error {
	if c.done == nil {
		return errors.New("podapi: command not started")
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), max(c.patience(), KillGrace))
	defer cancel()
	var err error
	for try := 0; ; try++ {
		select {
		case <-c.done:
			if err == nil {
				err = os.ErrProcessDone
			}
			return err
		default:
		}
		err = c.client.Signal(ctx, c.ID, sig)
		switch {
		case errors.Is(err, fs.ErrNotExist): // the agent has forgotten it, or is another
			return os.ErrProcessDone
		case !errors.Is(err, ErrUnavailable) || c.patience() <= 0 || ctx.Err() != nil:
			return err
		}
		pause(c.life, resumeDelay(try+1))
	}
}

// PID returns the process's id in the sandbox, 0 before Start.
func (c *Cmd) PID() int { return int(c.started.GetPid()) }

// Status returns how the process ended; nil before Wait has returned, and when
// the end is not known. Of a process that was lost with its agent the Reason is
// [AgentLost], the Code -1, and Stdout and Stderr are as far as they arrived.
func (c *Cmd) Status() *ExitStatus {
	if !c.waited {
		return nil
	}
	return c.status
}

// Omitted returns how many bytes of the output the agent no longer had when
// they were to be read: also where there is no Status, after Wait has returned.
func (c *Cmd) Omitted() int64 {
	if !c.waited || c.output == nil {
		return 0
	}
	return c.output.omitted
}

// String returns the command as a person would type it, unquoted.
func (c *Cmd) String() string {
	switch {
	case c.attach != nil:
		return c.op() + " " + c.name()
	case len(c.Args) == 0:
		return c.Script
	}
	return strings.Join(c.Args, " ")
}
