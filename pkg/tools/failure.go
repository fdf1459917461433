package tools

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
)

// ofSandbox are the errors about the sandbox or the connection to it, not about
// the request.
var ofSandbox = []error{
	podapi.ErrUnavailable, podapi.ErrCut, podapi.ErrProtocol, podapi.ErrAgentLost, podapi.ErrUnauthenticated, podapi.ErrWrongPod,
	podapi.ErrVersion, context.Canceled, context.DeadlineExceeded,
	launcher.ErrNotFound, launcher.ErrNoAgent, launcher.ErrGone, launcher.ErrContainerEnded, launcher.ErrNodeLost, launcher.ErrOwned,
}

// ofRequest are the errors about the request, in addition to system errors.
var ofRequest = []error{
	fs.ErrNotExist, fs.ErrExist, fs.ErrPermission, errors.ErrUnsupported,
	fsops.ErrChanged, fsops.ErrChecksum, fsops.ErrNotRegular, podapi.ErrTooLarge, podapi.ErrConflict, podapi.ErrExecExpired,
}

// isAnswer reports whether err is the agent's answer about a path or a pattern,
// so that a model can do something about it. It looks at the type of err itself,
// because an error of a launch may wrap such an answer deep inside.
func isAnswer(err error) bool {
	if isOneOf(err, ofSandbox) {
		return false
	}
	switch err.(type) {
	case *fsops.PatternError, *fsops.EditError, *fsops.SkippedError:
		return true
	case *fs.PathError, *os.LinkError:
	default:
		return false
	}
	if _, ok := errors.AsType[*fsops.PatternError](err); ok {
		return true
	}
	_, ok := errors.AsType[syscall.Errno](err)
	return ok || isOneOf(err, ofRequest)
}

func isOneOf(err error, these []error) bool {
	return slices.ContainsFunc(these, func(e error) bool { return errors.Is(err, e) })
}

// failed turns an error of an operation on a file into a result or an error for
// the host. name is the path from the model, doing the verb, such as "read".
func failed(ctx context.Context, env *Env, doing, name string, err error) (Result, error) {
	switch {
	case ctx.Err() != nil:
		return Result{}, ctx.Err()
	case !isAnswer(err):
		return Result{}, err
	case strings.IndexByte(name, 0) >= 0:
		return Errorf("cannot %s %s: a path cannot contain a NUL byte.", doing, env.name(name)), nil
	case errors.Is(err, fs.ErrNotExist):
		return Errorf("%s", env.voice().missing(env, doing, name, offer(ctx, env, name))), nil
	}
	return Errorf("cannot %s %s: %s", doing, env.name(name), reason(err)), nil
}

func (ownVoice) missing(env *Env, doing, name, offer string) string {
	return fmt.Sprintf("cannot %s %s: there is no such file or directory. %s", doing, env.name(name), offer)
}

// reasons explain errors to a model, and say what to try.
var reasons = []struct {
	err  error
	text string
}{
	{fsops.ErrProtected, "it is protected, and must not be changed in any way. Leave it as it is."},
	{syscall.EISDIR, "it is a directory. Use Glob with a pattern such as \"*\" in it to list it."},
	{syscall.ENOTDIR, "a part of the path is a file, not a directory."},
	{fsops.ErrNotRegular, "it is a device, a FIFO or a socket, not a file."},
	{syscall.EROFS, "it is on a read-only file system."},
	{syscall.ENOSPC, "there is no space left in the sandbox. Remove files that are not needed."},
	{syscall.EDQUOT, "the quota of the file system is used up. Remove files that are not needed."},
	{syscall.ENAMETOOLONG, "the name is too long."},
	{syscall.ELOOP, "the path has too many symbolic links."},
	{syscall.E2BIG, "the arguments and the environment are too long. Put long values into a file."},
	{syscall.EFBIG, "it is too large to edit. Use Bash with sed or a similar program."},
	{podapi.ErrTooLarge, "it is too much for one call. Do it in smaller parts."},
	{fsops.ErrChanged, "it changed at the same time. Read it again."},
	{podapi.ErrConflict, "another command, or this one with another environment, was started with the same id. Look at what it did."},
	{podapi.ErrExecExpired, "it may have run before, and its result is no longer known. Look at what it did."},
}

// reason returns why an operation failed, as a sentence.
func reason(err error) string {
	for _, r := range reasons {
		if errors.Is(err, r.err) {
			return r.text
		}
	}
	return cause(err).Error() + "."
}

// cause returns err without its operation and path, which the model knows.
func cause(err error) error {
	switch e := err.(type) {
	case *fs.PathError:
		return e.Err
	case *os.LinkError:
		return e.Err
	}
	return err
}

// badPattern returns a result that says what is wrong with a pattern, or nil if
// err is about something else.
func badPattern(env *Env, err error, help string) *Result {
	bad, ok := errors.AsType[*fsops.PatternError](err)
	if !ok {
		return nil
	}
	at := ""
	if bad.Offset >= 0 {
		at = fmt.Sprintf(" at byte %d", bad.Offset)
	}
	result := Errorf("the pattern %s is invalid%s: %s. %s", env.quote(bad.Pattern), at, bad.Msg, help)
	return &result
}
