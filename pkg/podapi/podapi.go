// Package podapi is the contract between podagent and its callers, and its Go
// client: [Dial] connects a [Client] to an agent, which a launcher usually does.
// The client mirrors the standard library:
//
//   - [Client.ReadFile], [Client.WriteFile], [Client.Stat], [Client.Mkdir] and
//     so on are package os with a context; [Client.FS] is an fs.FS;
//   - [Client.Open] and [Client.Create] stream: a [File] is an io.ReaderAt and
//     io.Seeker, a [Writer] an io.Writer whose Commit replaces the whole file;
//   - [Client.Command] is os/exec, with the process in the sandbox, where it
//     outlives connections and callers; [Client.Attach] comes back to it;
//   - [Client.Dial] is net.Dial to a server in the sandbox; [Client.Forward] joins
//     connections to a port of this machine with it;
//   - [Client.Glob], [Client.Grep], [Client.Watch] and [Client.List] are
//     iterators: leaving the loop ends the work on the other side. An error is
//     the last value. If files or directories were skipped, it is a *[fsops.SkippedError].
//
// It promises:
//
//   - Errors are those of the same call made locally: errors.Is(err,
//     fs.ErrNotExist), *fs.PathError, syscall.ENOSPC; or this package's or fsops'.
//   - Content is checked against size and checksum. A stream that was cut is
//     [ErrCut], never a short success.
//   - A broken connection costs a command a delay, and no byte: the client goes on
//     over another. If it cannot, that is an error ([ErrUnavailable],
//     [ErrAgentLost]). A non-zero exit is a result (*[ExitError]).
//   - The end of a context ends the call and its work. The client turns it into a
//     signal for a process.
//
// The protocol is podapi.proto. Its generated code is package podapiv1, which hosts do
// not need; gateways and tests of other languages may use it. Package wire is what the
// client shares with the agent.
package podapi
