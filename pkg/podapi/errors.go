package podapi

import (
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podagent/podagent/pkg/podapi/wire"
)

// Errors beside those of the system and of fsops. Compare with errors.Is.
var (
	ErrUnavailable     = wire.ErrUnavailable     // the agent, or the way to it, does not answer
	ErrCut             = wire.ErrCut             // a stream ended before its final message
	ErrConflict        = wire.ErrConflict        // the exec id is taken by another command
	ErrStdinClosed     = wire.ErrStdinClosed     // the process takes no more standard input
	ErrStalled         = wire.ErrStalled         // a reader of output took nothing for too long
	ErrUnauthenticated = wire.ErrUnauthenticated // the agent does not accept the caller's key
	ErrWrongPod        = wire.ErrWrongPod        // the agent that answered is another pod's
	ErrTooLarge        = wire.ErrTooLarge        // a message was over 4 MiB
	ErrProtocol        = wire.ErrProtocol        // the agent's answer is not one to the request
	ErrAgentLost       = wire.ErrAgentLost       // the agent ended or restarted; nobody knows how far the process came
	ErrUnassigned      = wire.ErrUnassigned      // the agent was started for a pool, and belongs to no sandbox yet

	ErrVersion  = errors.New("incompatible versions")                    // client and agent are too far apart
	ErrDetached = errors.New("detached from the process, which runs on") // the caller has
	// ErrExecExpired says that the agent does not start or know an exec id. It is older than its
	// memory, and the command may have run; or was killed before its start, or forgotten ([Client.Forget]).
	ErrExecExpired = wire.ErrExecExpired
)

// isUnknownCall reports whether an agent refuses a call because it is too old for it.
func isUnknownCall(err error) bool {
	return status.Code(err) == codes.Unimplemented && wire.Detail(err) == nil
}
