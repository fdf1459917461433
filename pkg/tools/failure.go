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

// ofSandbox are the errors that say something of the sandbox, or of the way to
// it, and nothing of what was asked for.
var ofSandbox = []error{
	podapi.ErrUnavailable, podapi.ErrCut, podapi.ErrAgentLost, podapi.ErrUnauthenticated, podapi.ErrWrongPod,
	podapi.ErrVersion, context.Canceled, context.DeadlineExceeded,
	launcher.ErrNotFound, launcher.ErrNoAgent, launcher.ErrGone, launcher.ErrContainerEnded, launcher.ErrNodeLost, launcher.ErrOwned,
}

// ofRequest are the errors, beside those of the system, that say something of
// what was asked for.
var ofRequest = []error{
	fs.ErrNotExist, fs.ErrExist, fs.ErrPermission, errors.ErrUnsupported,
	fsops.ErrChanged, fsops.ErrChecksum, fsops.ErrNotRegular, podapi.ErrTooLarge, podapi.ErrConflict, podapi.ErrExecExpired,
}

// isAnswer reports whether err is what the agent answered about a path or a
// pattern, so that a model can do something about it. What an operation of a
// launch said may be deep within an error, which is why it matters what err
// itself is.
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

// failed returns what becomes of an error of an operation on the file that the
// model called name: doing says what it was to do, such as "read".
func failed(ctx context.Context, env *Env, doing, name string, err error) (Result, error) {
	switch {
	case ctx.Err() != nil:
		return Result{}, ctx.Err()
	case !isAnswer(err):
		return Result{}, err
	case strings.IndexByte(name, 0) >= 0:
		return Errorf("cannot %s %s: a path has no NUL byte.", doing, env.name(name)), nil
	case errors.Is(err, fs.ErrNotExist):
		return Errorf("cannot %s %s: there is no such file or directory. %s", doing, env.name(name), offer(ctx, env, name)), nil
	}
	return Errorf("cannot %s %s: %s", doing, env.name(name), reason(err)), nil
}

// reasons say what errors mean, and what to try.
var reasons = []struct {
	err  error
	text string
}{
	{fsops.ErrProtected, "it is protected, and must not be changed, in no other way either. Leave it as it is."},
	{syscall.EISDIR, "it is a directory. Use Glob with a pattern such as \"*\" and this cwd to see what is in it."},
	{syscall.ENOTDIR, "a part of the path is a file, not a directory."},
	{fsops.ErrNotRegular, "it is a device, a FIFO or a socket, not a file."},
	{syscall.EROFS, "it is on a file system that can only be read."},
	{syscall.ENOSPC, "there is no space left in the sandbox. Remove what is not needed."},
	{syscall.EDQUOT, "the quota of the file system is used up. Remove what is not needed."},
	{syscall.ENAMETOOLONG, "the name is too long."},
	{syscall.ELOOP, "there are too many symbolic links on the way to it."},
	{syscall.E2BIG, "the arguments and the environment are too long. Put what is long into a file."},
	{syscall.EFBIG, "it is too large to be edited. Use Bash, with sed or the like."},
	{podapi.ErrTooLarge, "that is too much for one call. Do it in smaller parts."},
	{fsops.ErrChanged, "it changed at the same time. Read it again."},
	{podapi.ErrConflict, "another command, or this one with another environment, was begun in its place. Look at what it did."},
	{podapi.ErrExecExpired, "it may have run before, and its end is not known any more. Look at what it did."},
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

// cause returns err without the operation and path that it names, which the
// model knows.
func cause(err error) error {
	switch e := err.(type) {
	case *fs.PathError:
		return e.Err
	case *os.LinkError:
		return e.Err
	}
	return err
}

// badPattern returns what is wrong with a pattern; nil if that is not what err
// says.
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
