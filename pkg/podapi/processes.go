package podapi

import (
	"context"
	"syscall"
	"time"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// ProcessInfo describes a process that the agent knows.
type ProcessInfo struct {
	// ID is the exec id.
	ID  string
	PID int
	// Args is the command and its arguments; or Script a shell script.
	Args    []string
	Script  string
	Started time.Time
	// Status is nil while the process runs.
	Status *ExitStatus
}

// Processes lists the processes that the agent knows, oldest first: those that
// run, and those that ended a short time ago.
func (c *Client) Processes(ctx context.Context) ([]ProcessInfo, error) {
	r, err := c.processes.List(ctx, &pb.ListProcessesRequest{})
	if err != nil {
		return nil, FromStatus(err)
	}
	var list []ProcessInfo
	for _, p := range r.Processes {
		info := ProcessInfo{ID: p.ExecId, PID: int(p.Pid), Script: string(p.Script), Started: time.Unix(0, p.Started)}
		for _, a := range p.Argv {
			info.Args = append(info.Args, string(a))
		}
		if p.Exit != nil {
			status := exitStatusFromProto(p.Exit)
			info.Status = &status
		}
		list = append(list, info)
	}
	return list, nil
}

// Signal sends a signal, by its number on Linux, to the whole tree of the
// process with this exec id.
func (c *Client) Signal(ctx context.Context, id string, sig syscall.Signal) error {
	_, err := c.processes.Signal(ctx, &pb.SignalRequest{ExecId: id, Signal: uint32(sig)})
	return FromStatus(err)
}

// Forget drops what the agent keeps of an ended process.
func (c *Client) Forget(ctx context.Context, id string) error {
	_, err := c.processes.Forget(ctx, &pb.ForgetRequest{ExecId: id})
	return FromStatus(err)
}
