package podapi

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"

	"github.com/podagent/podagent/internal/delay"
)

// Process is a process in the sandbox as one caller sees it: that of a [Cmd], or
// one that [Client.Attach] has found. Its methods may be called concurrently.
type Process struct {
	// A run has one follower, the goroutine that opens its streams and receives their
	// messages. The caller's goroutine begins as the follower; after Start and Attach
	// one of the run's own takes over. Beside it, pumps write the output (output.go),
	// one goroutine reads the input and one for each stream sends it (stdin.go), a killer
	// may have the process killed (kill.go), and one may detach from it (finish.go). They
	// share the fields as follows.

	// What the caller asked for. It never changes.
	client             *Client
	ctx                context.Context // its end ends the run: see part
	op, name           string          // the run's names in errors
	command            func() (*pb.ExecStart, error)
	limited            bool           // the command has resource limits
	attach             *AttachOptions // nil for a command
	stdinFrom          io.Reader
	stdoutTo, stderrTo io.Writer
	outputAt           [2]func(offset int64)
	pipes              []io.Closer
	resumeTimeout      time.Duration
	timeout            time.Duration // of a command; 0 for none

	// The means to end the run, for all goroutines. giveUp ends life, and so all
	// streams, and leaves the process as it is. hurry ends calm, and so every wait
	// for a slow writer. told ends waiting, once the agent has nothing more to say.
	// The killer closes killed when it has ended, after it has set
	// unkilled, which says why the process may run on.
	life     context.Context
	giveUp   context.CancelFunc
	calm     context.Context
	hurry    context.CancelFunc
	waiting  context.Context
	told     context.CancelFunc
	killed   chan struct{}
	unkilled error
	unwatch  func() bool           // ends the watch over ctx; the follower's
	overdue  atomic.Pointer[error] // why the run was given up after the command's timeout
	control  control               // what the caller wants of the process; has a lock

	// The follower's. Only it uses boot and tries. It sets the others when the first
	// stream is open, and the id before that. Then they stay, and all may read them.
	id      string
	reader  string // tells the agent that the streams are of one reader
	boot    string // the agent that has the process
	started *pb.ExecStarted
	stdin   *stdinSender // nil without input
	output  *outputs
	tries   int // to connect, since something last arrived

	// Why the output could not be delivered. A pump sets it, and the follower reads it
	// once the pumps have ended.
	failing sync.Once
	failed  error

	// The end. The follower sets it before it closes done, and all may read it after.
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
	p.waiting, p.told = context.WithCancel(p.life)
	return p
}

// ID returns the exec id.
func (p *Process) ID() string { return p.id }

// PID returns the process's id in the sandbox.
func (p *Process) PID() int { return int(p.started.GetPid()) }

// HasStdin reports whether standard input was open when the run began.
func (p *Process) HasStdin() bool { return p.started.GetStdinOpen() }

// HasTerminal reports whether the process has a terminal.
func (p *Process) HasTerminal() bool { return p.started.GetTerminal() }

// Wait waits for the end of the process and of its output. It returns nil for
// exit code 0, an *[ExitError] for any other end, and another error where the end is
// not known or the run was not whole:
//   - the error of a Write of output or a Read of input;
//   - [ErrUnavailable]: there was no connection for ResumeTimeout;
//   - [ErrAgentLost]: the agent restarted, with the platform's reason, if any;
//   - [ErrExecExpired]: the agent has forgotten the process;
//   - [ErrDetached]: the caller has detached.
func (p *Process) Wait() error {
	<-p.done
	return p.err
}

// Status returns how the process ended; nil while it runs, if the end is unknown,
// and for a nil Process. After [ErrAgentLost] it counts what arrived.
func (p *Process) Status() *ExitStatus {
	if p == nil || !p.isOver() {
		return nil
	}
	return p.status
}

// Omitted is how many output bytes were gone when read; 0 before the end.
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

// Signal sends a signal of Linux to the process's whole tree, again if the connection
// is cut. If the process has ended, it returns os.ErrProcessDone.
func (p *Process) Signal(sig syscall.Signal) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), max(p.patience(), KillGrace))
	defer cancel()
	err := os.ErrProcessDone
	for try := 1; !p.isOver(); try++ {
		err = p.client.Signal(ctx, p.id, sig)
		if !errors.Is(err, ErrUnavailable) || p.patience() <= 0 || ctx.Err() != nil {
			break
		}
		delay.For(p.life, resumeDelay(try))
	}
	if errors.Is(err, fs.ErrNotExist) { // the agent has forgotten the process, or has restarted
		return os.ErrProcessDone
	}
	return err
}

// patience is how long to try to reconnect; 0 or less means not at all.
func (p *Process) patience() time.Duration {
	if p.resumeTimeout == 0 {
		return DefaultResumeTimeout
	}
	return p.resumeTimeout
}

func (p *Process) wrap(err error) error { return pathError(p.op, p.name, err) }
