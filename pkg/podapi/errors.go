package podapi

import (
	"errors"

	"github.com/podagent/podagent/pkg/podapi/wire"
)

// The errors that calls have beside those of the operating system and of
// fsops. They arrive wrapped; compare with errors.Is.
var (
	// ErrUnavailable says that the agent, or the way to it, does not answer.
	ErrUnavailable = wire.ErrUnavailable
	// ErrCut says that a stream ended before its final message.
	ErrCut = wire.ErrCut
	// ErrAgentLost says that the agent ended or restarted, and the process is
	// gone with it. It is not known how far it came.
	ErrAgentLost = wire.ErrAgentLost
	// ErrConflict says that an exec id is taken by another command.
	ErrConflict = wire.ErrConflict
	// ErrExecExpired says that nothing can be started by an exec id: it is older
	// than the agent's memory, so that the agent cannot tell whether the command
	// already ran, or it was killed before the start. Or it says that the process
	// was forgotten while its output was read.
	ErrExecExpired = wire.ErrExecExpired
	// ErrStdinClosed says that a process takes no more standard input.
	ErrStdinClosed = wire.ErrStdinClosed
	// ErrStalled says that a reader of output took nothing for too long.
	ErrStalled = wire.ErrStalled
	// ErrUnauthenticated says that the agent does not accept the caller's key.
	ErrUnauthenticated = wire.ErrUnauthenticated
	// ErrWrongPod says that the agent that answered belongs to another pod.
	ErrWrongPod = wire.ErrWrongPod
	// ErrTooLarge says that a message of the call is over 4 MiB.
	ErrTooLarge = wire.ErrTooLarge
	// ErrVersion says that client and agent are too far apart to understand
	// each other.
	ErrVersion = errors.New("incompatible versions")
)
