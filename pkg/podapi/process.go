package podapi

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// Process is a process in the sandbox, as one caller follows it: that of a [Cmd], or
// one that [Client.Attach] has found. Its methods may be called concurrently.
type Process struct {
	// Each run has one follower. This goroutine opens the streams and takes their
	// messages: first the caller's, in Start, Run or Attach, then one of the run's own,
	// but in Run. The pumps (output.go) write the output, a reader and a feeder for each
	// stream (stdin.go) move the input, and a killer (kill.go) may have the process
	// killed. They share the fields as follows.

	// What the caller asked for: nobody changes it.
	client             *Client
	ctx                context.Context // ends the run: see part
	op, name           string          // what errors call the run
	command            func() (*pb.ExecStart, error)
	limited            bool           // the command has resource limits
	attach             *AttachOptions // nil for a command
	stdinFrom          io.Reader
	stdoutTo, stderrTo io.Writer
	pipes              []io.Closer
	resumeTimeout      time.Duration

	// How the run is ended: anybody may. The end of life, by giveUp, ends all streams
	// and leaves the process. The end of calm, by hurry, says that there is nothing to
	// wait for any more.
	life    context.Context
	giveUp  context.CancelFunc
	calm    context.Context
	hurry   context.CancelFunc
	unwatch func() bool // ends the watch over ctx
	control control     // what the caller wants of the process; has a lock
	killed  chan struct{}

	// The follower's. When anybody else sees them, the first stream has been opened,
	// and they do not change any more, but for boot and tries, which only the follower
	// uses. The killer uses the id, which is set before something is sent.
	id      string
	reader  string // tells the agent that the streams are of one reader
	boot    string // the agent that has the process
	started *pb.ExecStarted
	stdin   *stdinSender // nil without input
	output  *outputs
	tries   int // to connect, since something last arrived

	// Why the output could not be delivered: set by a pump, and read by the follower
	// once the pumps have ended.
	failing sync.Once
	failed  error

	// The end: set by the follower, and read by all once done is closed.
	done     chan struct{}
	status   *ExitStatus
	omitted  int64
	detached bool
	err      error
}

func newProcess(ctx context.Context, client *Client, op, name string) *Process {
	p := &Process{
		client: client, ctx: ctx, op: op, name: name,
		reader: rand.Text(), killed: make(chan struct{}), done: make(chan struct{}),
	}
	p.life, p.giveUp = context.WithCancel(context.WithoutCancel(ctx))
	p.calm, p.hurry = context.WithCancel(p.life)
	return p
}

// ID returns the exec id.
func (p *Process) ID() string { return p.id }

// PID returns the process's id in the sandbox.
func (p *Process) PID() int { return int(p.started.GetPid()) }

// HasStdin reports whether standard input was open when the run began, so that what
// is written to it arrives.
func (p *Process) HasStdin() bool { return p.started.GetStdinOpen() }

// HasTerminal reports whether the process has a terminal.
func (p *Process) HasTerminal() bool { return p.started.GetTerminal() }

// Wait waits for the end of the process and of its output. It returns nil for
// exit code 0, and an *[ExitError] for any other end. Another error says that the end
// is not known, or that the run was not whole:
//
//   - a Write of the output or a Read of the input failed, with its error;
//   - [ErrUnavailable]: there was no connection for ResumeTimeout;
//   - [ErrAgentLost]: the agent has restarted, and the process is gone; with the
//     platform's reason if it has one;
//   - [ErrExecExpired]: the agent was told to forget the process;
//   - [ErrDetached]: the caller has detached.
//
// It may be called again, and returns the same.
func (p *Process) Wait() error {
	<-p.done
	return p.err
}

// Status returns how the process ended; nil while it runs, when the end is not known,
// and of a nil Process. If the process was lost with its agent, the Reason is
// [AgentLost], the Code -1, and Stdout and Stderr count what arrived.
func (p *Process) Status() *ExitStatus {
	if p == nil || !p.isOver() {
		return nil
	}
	return p.status
}

// Omitted returns how many bytes of the output the agent no longer had when
// they were to be read, also where there is no Status; 0 before the end of the run.
func (p *Process) Omitted() int64 {
	if p == nil || !p.isOver() {
		return 0
	}
	return p.omitted
}

// isOver reports whether the run has ended.
func (p *Process) isOver() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Signal sends a signal, by its number on Linux, to the process's whole tree, and
// returns when it was sent. When the process has ended it returns os.ErrProcessDone. A
// signal whose answer is cut off is sent again, so that the process may get it twice.
func (p *Process) Signal(sig syscall.Signal) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), max(p.patience(), KillGrace))
	defer cancel()
	err := os.ErrProcessDone
	for try := 1; !p.isOver(); try++ {
		err = p.client.Signal(ctx, p.id, sig)
		if !errors.Is(err, ErrUnavailable) || p.patience() <= 0 || ctx.Err() != nil {
			break
		}
		pause(p.life, resumeDelay(try))
	}
	if errors.Is(err, fs.ErrNotExist) { // the agent has forgotten it, or is another
		return os.ErrProcessDone
	}
	return err
}

// patience is for how long a connection is sought; nothing or less for not at all.
func (p *Process) patience() time.Duration {
	if p.resumeTimeout == 0 {
		return DefaultResumeTimeout
	}
	return p.resumeTimeout
}

func (p *Process) wrap(err error) error { return pathError(p.op, p.name, err) }
