package wire

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strings"
	"syscall"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podagent/podagent/pkg/fsops"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// The errors of the contract, besides those of the operating system and of fsops.
// Package podapi has them under the same names, and explains them.
var (
	ErrUnavailable     = errors.New("agent unavailable")
	ErrCut             = errors.New("stream was cut before its end")
	ErrAgentLost       = errors.New("agent lost")
	ErrConflict        = errors.New("exec id is in use by another command")
	ErrExecExpired     = errors.New("exec id has expired")
	ErrStdinClosed     = errors.New("standard input is closed")
	ErrStalled         = errors.New("reader of output stalled")
	ErrUnauthenticated = errors.New("key not accepted by the agent")
	ErrWrongPod        = errors.New("agent belongs to another pod")
	ErrTooLarge        = errors.New("message too large")
	ErrProtocol        = errors.New("agent broke the contract")
	ErrUnassigned      = errors.New("agent belongs to no sandbox yet")
)

// A class row ties a class on the wire to its Go error and to the code that other
// languages see. The first row whose error matches is used, so the narrower ones
// come first.
type class struct {
	class pb.Class
	code  codes.Code
	err   error
}

var classes = []class{
	{pb.Class_CLASS_CHANGED, codes.FailedPrecondition, fsops.ErrChanged},
	{pb.Class_CLASS_CHECKSUM, codes.DataLoss, fsops.ErrChecksum},
	{pb.Class_CLASS_NOT_REGULAR, codes.FailedPrecondition, fsops.ErrNotRegular},
	{pb.Class_CLASS_UNSAFE_ARCHIVE, codes.InvalidArgument, fsops.ErrUnsafeArchive},
	{pb.Class_CLASS_ARCHIVE, codes.InvalidArgument, fsops.ErrBadArchive},
	{pb.Class_CLASS_BINARY, codes.FailedPrecondition, fsops.ErrBinary},
	{pb.Class_CLASS_PROTECTED, codes.PermissionDenied, fsops.ErrProtected},
	{pb.Class_CLASS_CUT, codes.DataLoss, ErrCut},
	{pb.Class_CLASS_CONFLICT, codes.AlreadyExists, ErrConflict},
	{pb.Class_CLASS_AGENT_LOST, codes.Aborted, ErrAgentLost},
	{pb.Class_CLASS_EXEC_EXPIRED, codes.FailedPrecondition, ErrExecExpired},
	{pb.Class_CLASS_STDIN_CLOSED, codes.FailedPrecondition, ErrStdinClosed},
	{pb.Class_CLASS_STALLED, codes.Aborted, ErrStalled},
	{pb.Class_CLASS_UNAUTHENTICATED, codes.Unauthenticated, ErrUnauthenticated},
	{pb.Class_CLASS_UNASSIGNED, codes.FailedPrecondition, ErrUnassigned},
	{pb.Class_CLASS_PROCESS_DONE, codes.FailedPrecondition, os.ErrProcessDone},
	{pb.Class_CLASS_CANCELLED, codes.Canceled, context.Canceled},
	{pb.Class_CLASS_DEADLINE, codes.DeadlineExceeded, context.DeadlineExceeded},
	{pb.Class_CLASS_UNAVAILABLE, codes.Unavailable, ErrUnavailable},
	{pb.Class_CLASS_NOT_EMPTY, codes.FailedPrecondition, syscall.ENOTEMPTY},
	{pb.Class_CLASS_NOT_EXIST, codes.NotFound, fs.ErrNotExist},
	{pb.Class_CLASS_EXIST, codes.AlreadyExists, fs.ErrExist},
	{pb.Class_CLASS_READ_ONLY, codes.PermissionDenied, syscall.EROFS},
	{pb.Class_CLASS_PERMISSION, codes.PermissionDenied, fs.ErrPermission},
	{pb.Class_CLASS_IS_DIRECTORY, codes.FailedPrecondition, syscall.EISDIR},
	{pb.Class_CLASS_NOT_DIRECTORY, codes.FailedPrecondition, syscall.ENOTDIR},
	{pb.Class_CLASS_NO_SPACE, codes.ResourceExhausted, syscall.ENOSPC},
	{pb.Class_CLASS_QUOTA, codes.ResourceExhausted, syscall.EDQUOT},
	{pb.Class_CLASS_NAME_TOO_LONG, codes.InvalidArgument, syscall.ENAMETOOLONG},
	{pb.Class_CLASS_LOOP, codes.FailedPrecondition, syscall.ELOOP},
	{pb.Class_CLASS_CROSS_DEVICE, codes.FailedPrecondition, syscall.EXDEV},
	{pb.Class_CLASS_BUSY, codes.FailedPrecondition, syscall.EBUSY},
	{pb.Class_CLASS_TOO_LARGE, codes.OutOfRange, syscall.EFBIG},
	{pb.Class_CLASS_NOT_EXECUTABLE, codes.FailedPrecondition, syscall.ENOEXEC},
	{pb.Class_CLASS_IO, codes.DataLoss, syscall.EIO},
	{pb.Class_CLASS_EXHAUSTED, codes.ResourceExhausted, syscall.EMFILE},
	{pb.Class_CLASS_EXHAUSTED, codes.ResourceExhausted, syscall.ENFILE},
	{pb.Class_CLASS_EXHAUSTED, codes.ResourceExhausted, syscall.EAGAIN},
	{pb.Class_CLASS_EXHAUSTED, codes.ResourceExhausted, syscall.ENOMEM},
	{pb.Class_CLASS_CONNECTION_REFUSED, codes.FailedPrecondition, syscall.ECONNREFUSED},
	{pb.Class_CLASS_CONNECTION_RESET, codes.Aborted, syscall.ECONNRESET},
	{pb.Class_CLASS_INVALID, codes.InvalidArgument, syscall.EINVAL},
	{pb.Class_CLASS_UNSUPPORTED, codes.Unimplemented, errors.ErrUnsupported},
}

// errnos are the system errors that are sent by name, along with their class.
var errnos = map[string]syscall.Errno{
	"E2BIG": syscall.E2BIG, "EACCES": syscall.EACCES, "EAGAIN": syscall.EAGAIN, "EBADF": syscall.EBADF,
	"EBUSY": syscall.EBUSY, "EDQUOT": syscall.EDQUOT, "EEXIST": syscall.EEXIST, "EFBIG": syscall.EFBIG,
	"EINVAL": syscall.EINVAL, "EIO": syscall.EIO, "EISDIR": syscall.EISDIR, "ELOOP": syscall.ELOOP,
	"EMFILE": syscall.EMFILE, "EMLINK": syscall.EMLINK, "ENAMETOOLONG": syscall.ENAMETOOLONG,
	"ENFILE": syscall.ENFILE, "ENODEV": syscall.ENODEV, "ENOENT": syscall.ENOENT, "ENOEXEC": syscall.ENOEXEC,
	"ENOMEM": syscall.ENOMEM, "ENOSPC": syscall.ENOSPC, "ENOSYS": syscall.ENOSYS, "ENOTDIR": syscall.ENOTDIR,
	"ENOTEMPTY": syscall.ENOTEMPTY, "ENOTSUP": syscall.ENOTSUP, "ENXIO": syscall.ENXIO, "EPERM": syscall.EPERM,
	"EROFS": syscall.EROFS, "ESTALE": syscall.ESTALE, "ETIMEDOUT": syscall.ETIMEDOUT, "EXDEV": syscall.EXDEV,
}

// errnoName returns the name of the system error in err; empty if it has none in
// errnos.
func errnoName(err error) string {
	errno, ok := errors.AsType[syscall.Errno](err)
	if !ok {
		return ""
	}
	for name, e := range errnos {
		if e == errno {
			return name
		}
	}
	return ""
}

// EncodeError returns err as it is sent: its class, the operation and the paths
// that it names, and its text, each cut to 1 KiB. [DecodeError] is its inverse.
func EncodeError(err error) *pb.Error {
	e := &pb.Error{Message: text(err.Error()), Errno: errnoName(err)}
	var pathErr *fs.PathError
	var linkErr *os.LinkError
	switch {
	case errors.As(err, &linkErr):
		e.Op, e.Path, e.Path2 = linkErr.Op, cutText(linkErr.Old), cutText(linkErr.New)
		e.Message = text(linkErr.Err.Error())
	case errors.As(err, &pathErr):
		e.Op, e.Path = pathErr.Op, cutText(pathErr.Path)
		e.Message = text(pathErr.Err.Error())
	}
	var patternErr *fsops.PatternError
	var editErr *fsops.EditError
	switch {
	case errors.As(err, &patternErr):
		e.Class = pb.Class_CLASS_PATTERN
		e.Pattern = &pb.PatternDetail{Pattern: cutText(patternErr.Pattern), Offset: int64(patternErr.Offset), Message: text(patternErr.Msg)}
	case errors.As(err, &editErr):
		e.Class = pb.Class_CLASS_EDIT
		e.Edit = &pb.EditDetail{Index: int64(editErr.Index), Count: int64(editErr.Count), Hint: text(editErr.Hint)}
	default:
		e.Class = classOf(err).class
	}
	return e
}

// text returns s as the wire's strings must be: UTF-8, and short enough.
func text(s string) string {
	return strings.ToValidUTF8(string(cutText(s)), "\uFFFD")
}

// cutText returns s, cut so that it fits into the headers that carry a status.
func cutText[T string | []byte](s T) []byte {
	if len(s) > maxErrorText {
		return append([]byte(s[:maxErrorText]), "…"...)
	}
	return []byte(s)
}

// classOf returns the row of the first class that err belongs to.
func classOf(err error) class {
	for _, c := range classes {
		if errors.Is(err, c.err) {
			return c
		}
	}
	return class{pb.Class_CLASS_UNSPECIFIED, codes.Unknown, nil}
}

// DecodeError returns the Go error that e stands for: the one that the same
// operation would have given locally. It cuts texts as EncodeError does, which the
// sender may not have done.
func DecodeError(e *pb.Error) error {
	err := decodeCause(e)
	switch {
	case e.Path2 != nil:
		return &os.LinkError{Op: text(e.Op), Old: string(cutText(e.Path)), New: string(cutText(e.Path2)), Err: err}
	case e.Op != "":
		return &fs.PathError{Op: text(e.Op), Path: string(cutText(e.Path)), Err: err}
	}
	return err
}

func decodeCause(e *pb.Error) error {
	switch {
	case e.Pattern != nil:
		offset := max(min(e.Pattern.Offset, int64(len(e.Pattern.Pattern))), -1)
		return &fsops.PatternError{Pattern: string(cutText(e.Pattern.Pattern)), Offset: int(offset), Msg: text(e.Pattern.Message)}
	case e.Edit != nil:
		return &fsops.EditError{Index: count(e.Edit.Index), Count: count(e.Edit.Count), Hint: text(e.Edit.Hint)}
	}
	cause := classError(e.Class)
	if errno, ok := errnos[e.Errno]; ok && (cause == nil || errors.Is(errno, cause) || e.Class == pb.Class_CLASS_EXHAUSTED) {
		cause = errno
	}
	switch {
	case cause == nil:
		return errors.New(text(e.Message))
	case e.Message == "" || cause.Error() == e.Message:
		return cause
	}
	return &remoteError{msg: text(e.Message), cause: cause}
}

// count returns a number of a message as one that counts something.
func count(n int64) int { return int(max(min(n, math.MaxInt32), 0)) }

// classError returns the Go error of a class; nil for a class that this client does
// not know.
func classError(want pb.Class) error {
	for _, c := range classes {
		if c.class == want {
			return c.err
		}
	}
	return nil
}

// A remoteError has the agent's words and the class's identity.
type remoteError struct {
	msg   string
	cause error
}

func (e *remoteError) Error() string { return e.msg }
func (e *remoteError) Unwrap() error { return e.cause }

// ToStatus returns err as the gRPC status that a handler returns, with the encoded
// error as its detail. It returns nil and statuses unchanged.
func ToStatus(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	code := codes.InvalidArgument
	e := EncodeError(err)
	if e.Pattern == nil && e.Edit == nil {
		code = classOf(err).code
	} else if e.Edit != nil {
		code = codes.FailedPrecondition
	}
	st, detailErr := status.New(code, text(err.Error())).WithDetails(e)
	if detailErr != nil {
		return status.Error(code, text(err.Error()))
	}
	return st.Err()
}

// FromStatus returns the error that a call's status stands for: the decoded detail
// if there is one, otherwise the transport's error, cut as in [DecodeError]. A status
// that neither a handler nor the transport returns is [ErrProtocol].
func FromStatus(err error) error {
	st, ok := status.FromError(err)
	if !ok || err == nil {
		return err
	}
	if e := Detail(err); e != nil {
		return DecodeError(e)
	}
	if cause, ok := transportErrors[st.Code()]; ok {
		return fmt.Errorf("%w: %s", cause, text(st.Message()))
	}
	return fmt.Errorf("%w: %s: %s", ErrProtocol, st.Code(), text(st.Message()))
}

// Detail returns the detail that [ToStatus] attached to the status of a handler's
// error; nil if err is no such status.
func Detail(err error) *pb.Error {
	st, ok := status.FromError(err)
	if !ok {
		return nil
	}
	for _, d := range st.Details() {
		if e, ok := d.(*pb.Error); ok {
			return e
		}
	}
	return nil
}

// transportErrors are the meanings of status codes without a detail.
var transportErrors = map[codes.Code]error{
	codes.Canceled:          context.Canceled,
	codes.DeadlineExceeded:  context.DeadlineExceeded,
	codes.Unavailable:       ErrUnavailable,
	codes.ResourceExhausted: ErrTooLarge,
	codes.Unimplemented:     errors.ErrUnsupported,
	codes.Unauthenticated:   ErrUnauthenticated,
	codes.InvalidArgument:   syscall.EINVAL,
}
