// Package proc starts processes and keeps them: their output in a journal
// with byte offsets, their standard input, their signals and their end.
//
// A process belongs to the sandbox and not to the call that started it: it
// runs on when nobody listens. Readers attach by offset ([Process.Attach]) and
// get every byte after it exactly once. A non-zero exit is a result
// ([Status]), never an error.
//
// Each process leads a session of its own and bears a mark in two hard limits, which it
// hands on to its descendants and cannot shed. By that mark [Process.Signal] and timeouts
// find them wherever they went. A marker in the environment (PODAGENT_EXEC_ID) stands in
// where marks cannot be set. What cannot be assigned is a stray ([Manager.Strays]).
//
// The output ends when the process has ended and its drain (drainTime) is over. A
// descendant that outlives the process may write on: the agent reads its output, so that
// it does not get SIGPIPE, and discards it.
//
// Package journal keeps the output, and package cgroup reads the limits of the
// sandbox. Neither knows processes.
//
// The package is for Linux, and knows neither gRPC nor the contract.
package proc

import (
	"crypto/sha256"
	"errors"
	"time"

	"github.com/podagent/podagent/cmd/podagent/internal/proc/journal"
)

// markerEnv is the environment variable that holds the exec id in every
// process that was started for it, and in its descendants.
const markerEnv = "PODAGENT_EXEC_ID"

var (
	// ErrConflict says that a process with another spec has the exec id.
	ErrConflict = errors.New("exec id is in use by another command")
	// ErrStdinClosed says that standard input was closed, or never open.
	ErrStdinClosed = errors.New("standard input is closed")
	// ErrStalled says that a reader was detached because it took nothing for
	// too long and held up the process. It can attach again, by offset.
	ErrStalled = journal.ErrStalled
	// ErrReplaced says that a reader was detached because another one with its
	// name attached.
	ErrReplaced = journal.ErrReplaced
	// ErrTooOld says that an exec id cannot be started, because its process
	// may have run and been forgotten, or was killed before its start.
	ErrTooOld = errors.New("exec id is older than the memory of ended processes, or was killed before its start")
	// ErrShutdown says that the manager no longer starts processes.
	ErrShutdown = errors.New("the agent is shutting down")
)

// Spec says what to start.
type Spec struct {
	// ID is the exec id, chosen by the client: a UUIDv7. A second Start with
	// the same id and an equal spec returns the process of the first.
	ID string
	// Argv is the command and its arguments. A command without a slash is
	// looked up in the PATH of Env. Argv and Script exclude each other.
	Argv []string
	// Script is run by bash, or by sh where there is no bash. It may be longer than
	// the kernel's limit for one argument.
	Script string
	// Dir is the working directory, absolute.
	Dir string
	// Env is the whole environment, as NAME=VALUE; the marker is added.
	Env []string
	// Stdin opens standard input; otherwise it is /dev/null. A terminal is
	// always open for input.
	Stdin bool
	// Terminal, if set, gives the process a controlling terminal of this size. All
	// output is then Stdout. TERM is set to xterm-256color if Env has none.
	Terminal *TerminalSize
	// Rlimits are the resource limits of the process and its descendants. They hold
	// before the first instruction. All other limits are those of the agent. The limits
	// "locks" and "rttime" bear the mark, and cannot be set.
	Rlimits []Rlimit
	// Timeout ends the process after so long; 0 means never.
	Timeout time.Duration
	// Aside says that nobody waits for the work of the process. [Manager.Running] and
	// [Manager.LastActive] do not count it.
	Aside bool
	// Digest identifies the caller's request, without defaults that may change
	// between a start and its repetition (the environment, the directory). It decides
	// whether two specs are equal. If it is zero, the spec itself decides.
	Digest [sha256.Size]byte
}

// TerminalSize is the size of a terminal in characters. Programs take 0 as not
// known.
type TerminalSize struct{ Rows, Columns uint16 }

// Rlimit is a resource limit, as in setrlimit(2).
type Rlimit struct {
	// Resource is the limit's name in lower case without its prefix: "nofile",
	// "fsize".
	Resource string
	// Soft and Hard are in the resource's own unit; [math.MaxUint64] means
	// unlimited.
	Soft, Hard uint64
}

// Reason says why a process ended.
type Reason int

// The reasons are a closed set. The zero Reason comes only with an error, which says why
// nobody knows how the process ended.
const (
	// Exited: the process ended by itself, with Code.
	Exited Reason = iota + 1
	// Signalled: Signal ended it.
	Signalled
	// TimedOut: its timeout passed while it ran, however it ended then.
	TimedOut
	// OutOfMemory: the sandbox's memory ran out. Either the agent ended the process as
	// the largest, or the kernel killed something for memory while the process ran, and
	// the process ended by a SIGKILL that was not the agent's, or exited with 137, as a
	// shell does when its command is killed.
	OutOfMemory
)

// Status is how a process ended.
type Status struct {
	Reason Reason
	// Code is the exit code, 128 plus the signal's number where a signal
	// ended the process.
	Code int
	// Signal is the number of the signal that ended the process, 0 if none.
	Signal int
	// OutputOpen says that a descendant still held output open when the drain after
	// the process's end was over.
	OutputOpen bool
	// Stdout and Stderr are the total numbers of bytes written to each until
	// the end.
	Stdout, Stderr int64
	// Wall, User and System are the times that the process took. MaxRSS is its peak
	// resident memory in bytes; the kernel never counts less than the agent's own.
	Wall, User, System time.Duration
	MaxRSS             int64
	// ProcessLimit says that the limit of processes prevented a start in the
	// sandbox while the process ran: the agent's cgroup counted one, or the agent itself
	// could not start a process. A limit above that cgroup goes unnoticed.
	ProcessLimit bool
}

// Info describes a process for a list.
type Info struct {
	ID      string
	PID     int
	Argv    []string
	Script  string
	Started time.Time
	// Status is nil while the process runs.
	Status *Status
	// Stdout and Stderr are the numbers of bytes written to each so far. The last
	// StdoutKept and StderrKept of them are kept.
	Stdout, Stderr         int64
	StdoutKept, StderrKept int64
	// Terminal says that the process has one.
	Terminal bool
}

// Stream is one of a process's outputs.
type Stream int

// The outputs.
const (
	Stdout Stream = iota + 1
	Stderr
)

// Event is what an attached reader gets: output, or the end.
type Event struct {
	// Stream says which output Data belongs to.
	Stream Stream
	// Offset is the position of Data in its stream, in bytes from the start.
	Offset int64
	// Data is valid until the iteration goes on.
	Data []byte
	// Omitted is the number of bytes before Offset that the journal no longer
	// had.
	Omitted int64
	// Status is set in the last event and only there, unless that is Detached:
	// then the process runs on.
	Status   *Status
	Detached bool
}
