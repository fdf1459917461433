package podapi

import (
	"errors"

	"github.com/podagent/podagent/pkg/podapi/wire"
)

// The errors of calls beside those of the operating system and of fsops. They
// arrive wrapped; compare with errors.Is.
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
	// ErrExecExpired says that the agent does not start or know an exec id. The id is
	// older than its memory, and the command may have run; or the id was killed before
	// its start; or somebody had the agent forget the process ([Client.Forget]).
	ErrExecExpired = wire.ErrExecExpired
)
