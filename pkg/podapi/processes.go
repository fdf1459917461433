package podapi

import (
	"cmp"
	"context"
	"io"
	"io/fs"
	"strconv"
	"syscall"
	"time"
	"unicode/utf8"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// ProcessInfo describes a process that the agent knows.
type ProcessInfo struct {
	ID  string // the exec id
	PID int
	// Args or Script is the command: 4 KiB of it, and CommandCut bytes follow.
	Args       []string
	Script     string
	CommandCut int64
	Started    time.Time
	Status     *ExitStatus // nil while the process runs
	// Stdout and Stderr are how many bytes it has written to each. StdoutKept and
	// StderrKept are how many of the last bytes can still be read.
	Stdout, Stderr         int64
	StdoutKept, StderrKept int64
	Terminal               bool // it has a terminal
}

// Processes lists the processes that the agent knows, the oldest first.
func (c *Client) Processes(ctx context.Context) ([]ProcessInfo, error) {
	list, _, err := c.listProcesses(ctx)
	return list, err
}

// Strays counts the processes that belong to none of [Client.Processes].
func (c *Client) Strays(ctx context.Context) (int, error) {
	_, strays, err := c.listProcesses(ctx)
	return strays, err
}

// KillStrays kills the strays, and returns how many there were.
func (c *Client) KillStrays(ctx context.Context) (int, error) {
	r, err := c.processes.KillStrays(ctx, &pb.KillStraysRequest{})
	if err == nil {
		err = checkNumbers("a number of strays", r.Count)
	}
	return int(r.GetCount()), wire.FromStatus(err)
}

func (c *Client) listProcesses(ctx context.Context) (list []ProcessInfo, strays int, err error) {
	held := listBudget{most: maxProcesses}
	var idle idleMessages
	err = eachMessage(receive(ctx, &pb.ListProcessesRequest{}, c.processes.List), func(r *pb.ListProcessesResponse) error {
		switch end, p := r.GetEnd(), r.GetProcess(); {
		case end != nil && end.Count != int64(len(list)):
			return protocolError("%d processes, and not the %d of the end", len(list), end.Count)
		case end != nil:
			strays = int(end.Strays)
			return cmp.Or(checkNumbers("a number of strays", end.Strays), io.EOF)
		case p == nil:
			return idle.add()
		default:
			info, err := processFromProto(p)
			if err == nil && !held.take(commandSize(p)) {
				err = protocolError("more than %d processes, or %d bytes of their commands", maxProcesses, maxListTexts)
			}
			list = append(list, info)
			return err
		}
	})
	if err != nil {
		return nil, 0, wire.FromStatus(err)
	}
	return list, strays, nil
}

// commandSize is about what the command takes in memory.
func commandSize(p *pb.ProcessInfo) int {
	size := len(p.Script)
	for _, arg := range p.Argv {
		size += len(arg) + argSize
	}
	return size
}

// argSize is what an argument takes beside its text.
const argSize = 16

func processFromProto(p *pb.ProcessInfo) (ProcessInfo, error) {
	info := ProcessInfo{
		ID: p.ExecId, PID: int(p.Pid), Script: string(p.Script),
		CommandCut: p.CommandCut, Started: time.Unix(0, p.Started), Terminal: p.Terminal,
		Stdout: p.Stdout, Stderr: p.Stderr, StdoutKept: p.StdoutKept, StderrKept: p.StderrKept,
	}
	for _, a := range p.Argv {
		info.Args = append(info.Args, string(a))
	}
	err := firstError(
		checkExecID(p.ExecId),
		checkNumbers("a number of a process", p.Pid, p.CommandCut, p.Stdout, p.Stderr, p.StdoutKept, p.StderrKept),
	)
	if p.Started < 0 {
		err = protocolError("the start at %d ns", p.Started)
	}
	if size := commandSize(p) - argSize*len(p.Argv); size > maxCommand {
		err = protocolError("%d bytes of a command", size)
	}
	if p.Exit != nil {
		status, exitErr := exitStatusFromProto(p.Exit)
		info.Status, err = &status, firstError(err, exitErr)
	}
	return info, err
}

// unknownID is the error for an id that is not UTF-8, which no request can have: there is none.
func unknownID(op, id string) error {
	return &fs.PathError{Op: op, Path: strconv.Quote(id), Err: fs.ErrNotExist}
}

// Signal sends a signal of Linux to the whole tree of a process. An unknown id is
// fs.ErrNotExist, and after syscall.SIGKILL it is not started any more.
func (c *Client) Signal(ctx context.Context, id string, sig syscall.Signal) error {
	if !utf8.ValidString(id) {
		return unknownID("signal", id)
	}
	_, err := c.processes.Signal(ctx, &pb.SignalRequest{ExecId: id, Signal: uint32(sig)})
	return wire.FromStatus(err)
}

// Forget makes the agent drop what it keeps of an ended process.
func (c *Client) Forget(ctx context.Context, id string) error {
	if !utf8.ValidString(id) {
		return unknownID("forget", id)
	}
	_, err := c.processes.Forget(ctx, &pb.ForgetRequest{ExecId: id})
	return wire.FromStatus(err)
}
