package podapi

import (
	"fmt"
	"time"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// Reason says why a process ended. The reasons are a closed set.
type Reason string

// The reasons for which a process ends.
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
	// Code is the exit code; 128 plus the signal's number if a signal ended
	// the process, as shells have it; -1 if the Reason is AgentLost.
	Code int
	// Signal is the Linux number of the signal that ended the process; 0 if
	// none did.
	Signal int
	// OutputOpen says that a descendant still held the output when the
	// process had ended and the drain was over: what it wrote later is not
	// part of the output.
	OutputOpen bool
	// Stdout and Stderr are how many bytes the process wrote to each.
	Stdout, Stderr int64
	// Omitted is how many of those bytes the agent no longer had when they
	// were read.
	Omitted int64
	// Wall, User and System are the times that the process took.
	Wall, User, System time.Duration
	// MaxRSS is its peak resident memory in bytes. Linux counts from the fork
	// on, so it is never less than what the agent had at that time.
	MaxRSS int64
	// ProcessLimit says that while it ran the sandbox was at its limit of
	// processes, so that some could not be started.
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

func exitStatusFromProto(e *pb.ExecExit) ExitStatus {
	return ExitStatus{
		Reason: reasons[e.Reason], Code: int(e.Code), Signal: int(e.Signal), OutputOpen: e.OutputOpen,
		Stdout: e.Stdout, Stderr: e.Stderr,
		Wall: time.Duration(e.Wall), User: time.Duration(e.User), System: time.Duration(e.System), MaxRSS: e.MaxRss,
		ProcessLimit: e.ProcessLimit,
	}
}

// ExitError says that a process ended otherwise than by exiting with code 0.
// It is a result, and no fault of the agent or of the way to it.
type ExitError struct {
	ExitStatus
	// Stderr is the head and tail of standard error, where [Cmd.Output]
	// collected it and the caller did not.
	Stderr []byte
	// cause is the context's error, when its end is why the process was
	// killed.
	cause error
}

func (e *ExitError) Error() string {
	if e.cause != nil {
		return fmt.Sprintf("%v (%v)", e.ExitStatus, e.cause)
	}
	return e.ExitStatus.String()
}

// Unwrap returns the context's error, when its end is why the process was
// killed.
func (e *ExitError) Unwrap() error { return e.cause }
