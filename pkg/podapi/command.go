package podapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// Cmd is a command in the sandbox, being prepared or run. It is used as
// exec.Cmd is: set the fields, then Run, Output, or Start and Wait; once.
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
	// Timeout ends the process and all that it started: TERM, then KILL. The
	// output so far is kept, and the reason is [TimedOut]. 0 means never.
	Timeout time.Duration
	// ID is the exec id, a UUIDv7. Start chooses one when it is empty.
	ID string

	client  *Client
	ctx     context.Context
	stream  grpc.BidiStreamingClient[pb.ExecRequest, pb.ExecResponse]
	hangUp  context.CancelFunc // ends the stream, not the process
	sendMu  sync.Mutex
	pid     int
	stdin   *stdinSender
	done    chan struct{} // closed when the stream has ended
	status  *ExitStatus
	err     error // why the stream ended without a status
	output  *outputs
	failing sync.Once
	failed  error       // why output could not be delivered
	pipes   []io.Closer // closed when the output has ended
	waited  bool
}

// Command returns the command that runs name with args in the sandbox. When
// ctx ends before the process does, the process is killed.
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
func (c *Cmd) Start() error {
	if c.done != nil {
		return errors.New("podapi: command already started")
	}
	c.done = make(chan struct{})
	started, err := c.open()
	if err != nil {
		c.finish(err)
		return pathError("exec", c.name(), err)
	}
	c.pid = int(started.Pid)
	if c.Stdin != nil {
		c.stdin = newStdinSender(c.Stdin)
		go c.stdin.run(c.send)
	}
	c.output = newOutputs(c.Stdout, c.Stderr, c.fail)
	go c.receive()
	return nil
}

// open opens the stream, sends the start, and returns the agent's answer.
func (c *Cmd) open() (*pb.ExecStarted, error) {
	if err := c.ctx.Err(); err != nil {
		return nil, err
	}
	start, err := c.startRequest()
	if err != nil {
		return nil, err
	}
	// The stream must outlive c.ctx, whose end becomes a signal on it. Only
	// until the start is sent does it end the call.
	ctx, hangUp := context.WithCancel(context.WithoutCancel(c.ctx))
	c.hangUp = hangUp
	unsent := context.AfterFunc(c.ctx, hangUp)
	if c.stream, err = c.client.processes.Exec(ctx); err != nil {
		return nil, err
	}
	if !unsent() {
		return nil, c.ctx.Err()
	}
	if err := c.send(&pb.ExecRequest{Kind: &pb.ExecRequest_Start{Start: start}}); err != nil && err != io.EOF {
		return nil, err
	}
	go c.watchContext()
	r, err := c.stream.Recv()
	if err != nil {
		return nil, cutError(err)
	}
	if r.GetStarted() == nil {
		return nil, errors.New("agent did not begin with started")
	}
	return r.GetStarted(), nil
}

func (c *Cmd) startRequest() (*pb.ExecStart, error) {
	if c.ID == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return nil, err
		}
		c.ID = id.String()
	}
	return &pb.ExecStart{
		ExecId: c.ID, Argv: toBytes(c.Args), Script: []byte(c.Script), Dir: []byte(c.Dir),
		Env: toBytes(c.Env), ClearEnv: c.ClearEnv, Stdin: c.Stdin != nil, Timeout: int64(c.Timeout),
	}, nil
}

// name is what errors call the command.
func (c *Cmd) name() string {
	if len(c.Args) > 0 {
		return c.Args[0]
	}
	return "script"
}

func (c *Cmd) send(m *pb.ExecRequest) error {
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	return c.stream.Send(m)
}

// receive takes the stream's messages until the last.
func (c *Cmd) receive() {
	var exit *pb.ExecExit
	var err error
	for exit == nil && err == nil {
		var r *pb.ExecResponse
		if r, err = c.stream.Recv(); err == nil {
			exit = r.GetExit()
			err = c.take(r)
		}
	}
	if finishErr := c.output.finish(exit); err == nil {
		err = finishErr
	}
	if err == nil {
		status := exitStatusFromProto(exit)
		status.Omitted = c.output.omitted
		c.status = &status
	}
	c.finish(cutError(err))
}

// take hands output to its writer, and acknowledgements to the sender.
func (c *Cmd) take(r *pb.ExecResponse) error {
	switch kind := r.Kind.(type) {
	case *pb.ExecResponse_Stdout:
		return c.output.take(0, kind.Stdout)
	case *pb.ExecResponse_Stderr:
		return c.output.take(1, kind.Stderr)
	case *pb.ExecResponse_Stdin:
		if c.stdin != nil {
			c.stdin.acknowledge(kind.Stdin.Offset, kind.Stdin.Closed)
		}
	}
	return nil
}

// fail ends the process because its output cannot be delivered.
func (c *Cmd) fail(err error) {
	c.failing.Do(func() {
		c.failed = err
		if c.send(signalRequest(syscall.SIGKILL)) != nil {
			c.hangUp()
			return
		}
		time.AfterFunc(KillGrace, c.hangUp)
	})
}

// watchContext turns the end of the context into the end of the process.
func (c *Cmd) watchContext() {
	select {
	case <-c.done:
		return
	case <-c.ctx.Done():
	}
	if c.send(signalRequest(syscall.SIGKILL)) == nil {
		select {
		case <-c.done:
			return
		case <-time.After(KillGrace):
		}
	}
	c.hangUp()
	c.closePipes() // a pipe that nobody reads holds receive up
}

// finish ends the stream, and lets Wait return.
func (c *Cmd) finish(err error) {
	c.err = err
	if c.hangUp != nil {
		c.hangUp()
	}
	if c.stdin != nil {
		c.stdin.acknowledge(0, true)
	}
	c.closePipes()
	close(c.done)
}

func (c *Cmd) closePipes() {
	for _, p := range c.pipes {
		p.Close()
	}
}

// Wait waits for the end of the process and of its output. It returns nil for
// exit code 0, an *[ExitError] for any other end, and another error when the
// end is not known or the run was not whole: the connection broke, output
// could not be written, or Stdin could not be read.
func (c *Cmd) Wait() error {
	if c.done == nil {
		return errors.New("podapi: command not started")
	}
	if c.waited {
		return errors.New("podapi: Wait was already called")
	}
	c.waited = true
	<-c.done
	switch {
	case c.failed != nil && c.ctx.Err() == nil:
		return fmt.Errorf("writing the output of %s: %w", c.name(), c.failed)
	case c.status == nil && c.ctx.Err() != nil:
		return &fs.PathError{Op: "exec", Path: c.name(), Err: c.ctx.Err()}
	case c.status == nil:
		return pathError("exec", c.name(), c.err)
	case !c.status.Success():
		return &ExitError{ExitStatus: *c.status, cause: c.ctx.Err()}
	case c.stdin != nil && c.stdin.failure() != nil:
		return fmt.Errorf("reading standard input for %s: %w", c.name(), c.stdin.failure())
	}
	return nil
}

// Run starts the process and waits for its end.
func (c *Cmd) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

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

// whole makes output that is not whole an error, where err is none.
func (c *Cmd) whole(err error) error {
	if err == nil && c.status.Omitted > 0 {
		err = fmt.Errorf("%d bytes of the output of %s are missing: %w", c.status.Omitted, c.name(), ErrCut)
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
	if c.Stdin != nil || c.done != nil {
		return nil, errors.New("podapi: StdinPipe after Stdin was set or the command started")
	}
	r, w := io.Pipe()
	c.Stdin = r
	c.pipes = append(c.pipes, r)
	return w, nil
}

// StdoutPipe returns a pipe out of standard output. Read it to its end before
// Wait, which waits until all output has been read; but for a context that
// ended, when the pipe is closed after [KillGrace]. Two pipes must be read at
// once, as with package exec.
func (c *Cmd) StdoutPipe() (io.ReadCloser, error) { return c.outputPipe(&c.Stdout) }

// StderrPipe is StdoutPipe for standard error.
func (c *Cmd) StderrPipe() (io.ReadCloser, error) { return c.outputPipe(&c.Stderr) }

func (c *Cmd) outputPipe(to *io.Writer) (io.ReadCloser, error) {
	if *to != nil || c.done != nil {
		return nil, errors.New("podapi: pipe after the output was set or the command started")
	}
	r, w := io.Pipe()
	*to = pipeWriter{w}
	c.pipes = append(c.pipes, w)
	return r, nil
}

// Signal sends a signal, by its number on Linux, to the process's whole tree.
// It returns when the signal was sent. When the process has ended it returns
// os.ErrProcessDone.
func (c *Cmd) Signal(sig syscall.Signal) error {
	if c.done == nil {
		return errors.New("podapi: command not started")
	}
	select {
	case <-c.done:
		return os.ErrProcessDone
	default:
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), KillGrace)
	defer cancel()
	return c.client.Signal(ctx, c.ID, sig)
}

func signalRequest(sig syscall.Signal) *pb.ExecRequest {
	return &pb.ExecRequest{Kind: &pb.ExecRequest_Signal{Signal: uint32(sig)}}
}

// PID returns the process's id in the sandbox, 0 before Start.
func (c *Cmd) PID() int { return c.pid }

// Status returns how the process ended; nil before Wait has returned, and
// when the end is not known.
func (c *Cmd) Status() *ExitStatus {
	if !c.waited {
		return nil
	}
	return c.status
}

// String returns the command as a person would type it, unquoted.
func (c *Cmd) String() string {
	if len(c.Args) == 0 {
		return c.Script
	}
	return strings.Join(c.Args, " ")
}
