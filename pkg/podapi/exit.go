package podapi

import (
	"fmt"
	"time"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// Reason says why a process ended. There are no other reasons than these.
type Reason string

const (
	Exited      Reason = "exited"
	Signalled   Reason = "signalled"
	TimedOut    Reason = "timed out"
	OutOfMemory Reason = "out of memory"
	AgentLost   Reason = "agent lost"
)

var reasons = map[pb.ExitReason]Reason{
	pb.ExitReason_EXIT_REASON_EXITED:        Exited,
	pb.ExitReason_EXIT_REASON_SIGNALLED:     Signalled,
	pb.ExitReason_EXIT_REASON_TIMED_OUT:     TimedOut,
	pb.ExitReason_EXIT_REASON_OUT_OF_MEMORY: OutOfMemory,
	pb.ExitReason_EXIT_REASON_AGENT_LOST:    AgentLost,
}

// ExitStatus is how a process ended.
type ExitStatus struct {
	Reason Reason
	// Code is the exit code; as in shells 128 plus Signal if a signal ended the
	// process; -1 if the Reason is AgentLost.
	Code   int
	Signal int // the Linux number of the signal that ended the process, if one did
	// OutputOpen says that a descendant held the output open after the end of the
	// process and the drain. What it wrote later is not part of the output.
	OutputOpen bool
	// Stdout and Stderr are how many bytes the process wrote to each, and Omitted
	// how many of them the agent no longer had when they were read.
	Stdout, Stderr, Omitted int64
	Wall, User, System      time.Duration // the times that the process took
	// MaxRSS is its peak resident memory in bytes. Linux counts from the fork, so it
	// is at least what the agent had at that time.
	MaxRSS int64
	// ProcessLimit says that some could not start: the sandbox reached its limit of processes.
	ProcessLimit bool
}

// Success reports whether the process exited by itself with code 0.
func (s ExitStatus) Success() bool { return s.Reason == Exited && s.Code == 0 }

// String describes the status as os.ProcessState does: "exit status 7".
func (s ExitStatus) String() string {
	switch s.Reason {
	case Exited:
		return fmt.Sprintf("exit status %d", s.Code)
	case Signalled:
		return fmt.Sprintf("signal %d", s.Signal)
	}
	return string(s.Reason)
}

func exitStatusFromProto(e *pb.ExecExit) (ExitStatus, error) {
	status := ExitStatus{
		Reason: reasons[e.Reason], Code: int(e.Code), Signal: int(e.Signal), OutputOpen: e.OutputOpen,
		Stdout: e.Stdout, Stderr: e.Stderr,
		Wall: time.Duration(e.Wall), User: time.Duration(e.User), System: time.Duration(e.System), MaxRSS: e.MaxRss,
		ProcessLimit: e.ProcessLimit,
	}
	err := checkNumbers("a number of a process", e.Stdout, e.Stderr, e.Wall, e.User, e.System, e.MaxRss)
	// A later agent may know of other reasons.
	if e.Reason <= 0 || status.Reason == AgentLost || e.Code < 0 || e.Code > maxExitCode || e.Signal > maxSignal {
		err = protocolError("an end with reason %v, code %d and signal %d", e.Reason, e.Code, e.Signal)
	}
	return status, err
}

// maxExitCode and maxSignal are the highest of Linux.
const maxExitCode, maxSignal = 255, 64

// ExitError says that a process ended otherwise than with exit code 0. It is a
// result, and no fault of the agent or of the way to it.
type ExitError struct {
	ExitStatus
	Stderr []byte // head and tail of standard error, if only [Cmd.Output] collected it
	// cause is the context's error if the process was killed because it ended.
	cause error
}

func (e *ExitError) Error() string {
	if e.cause != nil {
		return fmt.Sprintf("%v (%v)", e.ExitStatus, e.cause)
	}
	return e.ExitStatus.String()
}

// Unwrap returns the context's error if its end killed the process.
func (e *ExitError) Unwrap() error { return e.cause }
