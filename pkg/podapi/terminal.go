package podapi

import (
	"fmt"
	"math"
	"syscall"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// TerminalSize is the size of a terminal in characters: at most 65535 each.
type TerminalSize struct{ Rows, Columns int }

func (s TerminalSize) check() error {
	if min(s.Rows, s.Columns) < 0 || max(s.Rows, s.Columns) > math.MaxUint16 {
		return fmt.Errorf("terminal of %d rows and %d columns: %w", s.Rows, s.Columns, syscall.EINVAL)
	}
	return nil
}

func (s TerminalSize) proto() *pb.TerminalSize {
	return &pb.TerminalSize{Rows: uint32(s.Rows), Columns: uint32(s.Columns)}
}

// Resize changes the size of the process's terminal, as soon as there is a connection.
// It is syscall.EINVAL for a process without a terminal.
func (p *Process) Resize(size TerminalSize) error {
	if err := size.check(); err != nil {
		return err
	}
	if !p.HasTerminal() {
		return fmt.Errorf("%s has no terminal: %w", p.name, syscall.EINVAL)
	}
	p.control.wantSize(size)
	return nil
}

// Rlimit is one resource limit of a process, as in setrlimit(2).
type Rlimit struct {
	Resource   string // in lower case without its prefix: "nofile", "fsize", "cpu", "as"
	Soft, Hard uint64 // in the resource's own unit, or [Unlimited]
}

func rlimitsToProto(limits []Rlimit) []*pb.Rlimit {
	var out []*pb.Rlimit
	for _, l := range limits {
		out = append(out, &pb.Rlimit{Resource: l.Resource, Soft: l.Soft, Hard: l.Hard})
	}
	return out
}
