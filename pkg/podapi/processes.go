package podapi

import (
	"context"
	"syscall"
	"time"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// ProcessInfo describes a process that the agent knows.
type ProcessInfo struct {
	ID  string // the exec id
	PID int
	// Args is the command with its arguments, or Script a shell script: the first
	// 4 KiB of it, and CommandCut how many bytes follow.
	Args       []string
	Script     string
	CommandCut int64
	Started    time.Time
	Status     *ExitStatus // nil while the process runs
	// Stdout and Stderr are how many bytes it has written to each, and StdoutKept
	// and StderrKept how many of the last can still be read.
	Stdout, Stderr         int64
	StdoutKept, StderrKept int64
	Terminal               bool // it has a terminal
}

// Processes lists the processes that the agent knows, oldest first: those that run,
// and those that have ended and that it still keeps.
func (c *Client) Processes(ctx context.Context) ([]ProcessInfo, error) {
	var list []ProcessInfo
	for r, err := range receive(ctx, &pb.ListProcessesRequest{}, c.processes.List) {
		if err != nil {
			return nil, wire.FromStatus(err)
		}
		if r.GetEnd() != nil {
			return list, nil
		}
		if p := r.GetProcess(); p != nil {
			list = append(list, processFromProto(p))
		}
	}
	return nil, ErrCut
}

func processFromProto(p *pb.ProcessInfo) ProcessInfo {
	info := ProcessInfo{
		ID: p.ExecId, PID: int(p.Pid), Script: string(p.Script),
		CommandCut: p.CommandCut, Started: time.Unix(0, p.Started), Terminal: p.Terminal,
		Stdout: p.Stdout, Stderr: p.Stderr, StdoutKept: p.StdoutKept, StderrKept: p.StderrKept,
	}
	for _, a := range p.Argv {
		info.Args = append(info.Args, string(a))
	}
	if p.Exit != nil {
		status := exitStatusFromProto(p.Exit)
		info.Status = &status
	}
	return info
}

// Signal sends a signal, by its number on Linux, to the whole tree of the
// process with this exec id. If the agent does not know the id, it is fs.ErrNotExist;
// after syscall.SIGKILL the agent starts no process with this id any more.
func (c *Client) Signal(ctx context.Context, id string, sig syscall.Signal) error {
	_, err := c.processes.Signal(ctx, &pb.SignalRequest{ExecId: id, Signal: uint32(sig)})
	return wire.FromStatus(err)
}

// Forget has the agent drop what it keeps of an ended process.
func (c *Client) Forget(ctx context.Context, id string) error {
	_, err := c.processes.Forget(ctx, &pb.ForgetRequest{ExecId: id})
	return wire.FromStatus(err)
}
