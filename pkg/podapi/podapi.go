// Package podapi is the contract between podagent and its callers: the
// protocol (podapi.proto, generated into podapiv1), the mapping of errors to
// the wire and back, the keys by which the two sides know each other, and the
// Go client.
//
// [Dial] connects a [Client] to an agent; usually a launcher does that. The
// client mirrors the standard library:
//
//   - [Client.ReadFile], [Client.WriteFile], [Client.Stat], [Client.Mkdir] and
//     so on are package os with a context; [Client.FS] is an fs.FS;
//   - [Client.Open] and [Client.Create] stream: what they return is an
//     io.ReaderAt and io.Seeker, and an io.Writer whose Commit puts the file in its
//     place, whole, and whose Close without it leaves the old one;
//   - [Client.Command] is os/exec, with the process in the sandbox, where it
//     outlives connections and callers; [Client.Attach] comes back to it;
//   - [Client.Dial] is net.Dial, to a server in the sandbox; [Client.Forward] joins
//     connections to a port of this machine with it;
//   - [Client.Glob], [Client.Grep], [Client.Watch] and [Client.List] are
//     iterators: leaving the loop ends the work on the other side. An error is
//     the last value; what was skipped is one, too (*[fsops.SkippedError]).
//
// What it promises:
//
//   - Errors are those that the same call would give locally:
//     errors.Is(err, fs.ErrNotExist), *fs.PathError, syscall.ENOSPC. Beside
//     them there are the errors of this package and of fsops.
//   - Content is checked against size and checksum. A stream that was cut is
//     an error ([ErrCut]), never a short success.
//   - A connection that breaks costs a command a delay, and no byte: the client
//     goes on by itself. Where it cannot, that is an error ([ErrUnavailable],
//     [ErrAgentLost]), while a non-zero exit is a result (*[ExitError] with its
//     [ExitStatus]).
//   - A context's end ends the call and its work; for a process the client
//     turns it into a signal.
//
// Generated types stay behind this package: its methods take and return types
// of the standard library, of fsops and of its own. The exception is podapiv1
// itself, for gateways and other languages' tests.
package podapi

// The version of the contract. Client and agent work together when the majors
// are equal and the minors differ by one at most.
const (
	ProtocolMajor = 1
	ProtocolMinor = 1
)
