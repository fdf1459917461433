package wire

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/podagent/podagent/pkg/fsops"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// overTheWire returns err as the other side receives it.
func overTheWire(err error) error { return FromStatus(ToStatus(err)) }

func TestErrorOfEveryClassSurvivesTheWire(t *testing.T) {
	for _, test := range []struct {
		local error
		class pb.Class
		code  codes.Code
		also  error // a second identity that must hold, if any
	}{
		{syscall.ENOENT, pb.Class_CLASS_NOT_EXIST, codes.NotFound, fs.ErrNotExist},
		{syscall.EEXIST, pb.Class_CLASS_EXIST, codes.AlreadyExists, fs.ErrExist},
		{syscall.EACCES, pb.Class_CLASS_PERMISSION, codes.PermissionDenied, fs.ErrPermission},
		{syscall.EISDIR, pb.Class_CLASS_IS_DIRECTORY, codes.FailedPrecondition, nil},
		{syscall.ENOTDIR, pb.Class_CLASS_NOT_DIRECTORY, codes.FailedPrecondition, nil},
		{syscall.ENOTEMPTY, pb.Class_CLASS_NOT_EMPTY, codes.FailedPrecondition, nil},
		{syscall.ENOSPC, pb.Class_CLASS_NO_SPACE, codes.ResourceExhausted, nil},
		{syscall.EDQUOT, pb.Class_CLASS_QUOTA, codes.ResourceExhausted, nil},
		{syscall.ENAMETOOLONG, pb.Class_CLASS_NAME_TOO_LONG, codes.InvalidArgument, nil},
		{syscall.ELOOP, pb.Class_CLASS_LOOP, codes.FailedPrecondition, nil},
		{syscall.EXDEV, pb.Class_CLASS_CROSS_DEVICE, codes.FailedPrecondition, nil},
		{syscall.EBUSY, pb.Class_CLASS_BUSY, codes.FailedPrecondition, nil},
		{syscall.EINVAL, pb.Class_CLASS_INVALID, codes.InvalidArgument, nil},
		{syscall.ECONNREFUSED, pb.Class_CLASS_CONNECTION_REFUSED, codes.FailedPrecondition, nil},
		{syscall.ECONNRESET, pb.Class_CLASS_CONNECTION_RESET, codes.Aborted, nil},
		{syscall.EROFS, pb.Class_CLASS_READ_ONLY, codes.PermissionDenied, nil},
		{syscall.EFBIG, pb.Class_CLASS_TOO_LARGE, codes.OutOfRange, nil},
		{syscall.EIO, pb.Class_CLASS_IO, codes.DataLoss, nil},
		{syscall.EMFILE, pb.Class_CLASS_EXHAUSTED, codes.ResourceExhausted, nil},
		{syscall.ENOEXEC, pb.Class_CLASS_NOT_EXECUTABLE, codes.FailedPrecondition, nil},
		{context.Canceled, pb.Class_CLASS_CANCELLED, codes.Canceled, nil},
		{context.DeadlineExceeded, pb.Class_CLASS_DEADLINE, codes.DeadlineExceeded, nil},
		{ErrUnavailable, pb.Class_CLASS_UNAVAILABLE, codes.Unavailable, nil},
		{errors.ErrUnsupported, pb.Class_CLASS_UNSUPPORTED, codes.Unimplemented, nil},
		{os.ErrProcessDone, pb.Class_CLASS_PROCESS_DONE, codes.FailedPrecondition, nil},
		{fsops.ErrNotRegular, pb.Class_CLASS_NOT_REGULAR, codes.FailedPrecondition, nil},
		{fsops.ErrChanged, pb.Class_CLASS_CHANGED, codes.FailedPrecondition, nil},
		{fsops.ErrChecksum, pb.Class_CLASS_CHECKSUM, codes.DataLoss, nil},
		{fsops.ErrBadArchive, pb.Class_CLASS_ARCHIVE, codes.InvalidArgument, nil},
		{syscall.EPERM, pb.Class_CLASS_PERMISSION, codes.PermissionDenied, fs.ErrPermission},
		{syscall.ENOMEM, pb.Class_CLASS_EXHAUSTED, codes.ResourceExhausted, nil},
		{syscall.EXDEV, pb.Class_CLASS_CROSS_DEVICE, codes.FailedPrecondition, nil},
		{fsops.ErrUnsafeArchive, pb.Class_CLASS_UNSAFE_ARCHIVE, codes.InvalidArgument, nil},
		{ErrCut, pb.Class_CLASS_CUT, codes.DataLoss, nil},
		{ErrConflict, pb.Class_CLASS_CONFLICT, codes.AlreadyExists, nil},
		{ErrAgentLost, pb.Class_CLASS_AGENT_LOST, codes.Aborted, nil},
		{ErrExecExpired, pb.Class_CLASS_EXEC_EXPIRED, codes.FailedPrecondition, nil},
		{ErrStdinClosed, pb.Class_CLASS_STDIN_CLOSED, codes.FailedPrecondition, nil},
		{ErrStalled, pb.Class_CLASS_STALLED, codes.Aborted, nil},
		{ErrUnauthenticated, pb.Class_CLASS_UNAUTHENTICATED, codes.Unauthenticated, nil},
	} {
		t.Run(test.class.String(), func(t *testing.T) {
			sent := &fs.PathError{Op: "open", Path: "dir/na\xffme", Err: test.local}
			if got := EncodeError(sent).Class; got != test.class {
				t.Errorf("class %v, want %v", got, test.class)
			}
			if got := status.Code(ToStatus(sent)); got != test.code {
				t.Errorf("code %v, want %v", got, test.code)
			}
			got := overTheWire(sent)
			if !errors.Is(got, test.local) {
				t.Errorf("%#v is not %v", got, test.local)
			}
			if test.also != nil && !errors.Is(got, test.also) {
				t.Errorf("%#v is not %v", got, test.also)
			}
			var pathErr *fs.PathError
			if !errors.As(got, &pathErr) || pathErr.Op != sent.Op || pathErr.Path != sent.Path {
				t.Errorf("%#v does not name operation and path", got)
			}
			if got.Error() != sent.Error() {
				t.Errorf("message %q, want %q", got, sent)
			}
		})
	}
}

func TestEveryClassHasAnError(t *testing.T) {
	for n, name := range pb.Class_name {
		class := pb.Class(n)
		switch class {
		case pb.Class_CLASS_UNSPECIFIED, pb.Class_CLASS_PATTERN, pb.Class_CLASS_EDIT:
			continue // these are made from the message and the details
		}
		if classError(class) == nil {
			t.Errorf("%s has no row in classes", name)
		}
	}
}

func TestErrorWithTwoPaths(t *testing.T) {
	got := overTheWire(&os.LinkError{Op: "rename", Old: "a", New: "b", Err: syscall.EXDEV})
	var linkErr *os.LinkError
	if !errors.As(got, &linkErr) || linkErr.Op != "rename" || linkErr.Old != "a" || linkErr.New != "b" {
		t.Fatalf("%#v is not the error of a rename of a to b", got)
	}
	if !errors.Is(got, syscall.EXDEV) {
		t.Errorf("%v is not EXDEV", got)
	}
}

func TestErrorDetailsSurviveTheWire(t *testing.T) {
	pattern := &fsops.PatternError{Pattern: "a(\xff", Offset: 1, Msg: "missing closing )"}
	got := overTheWire(fmt.Errorf("grep: %w", pattern))
	var gotPattern *fsops.PatternError
	if !errors.As(got, &gotPattern) || *gotPattern != *pattern {
		t.Errorf("got %#v, want %#v", got, pattern)
	}
	if !errors.Is(got, syscall.EINVAL) {
		t.Errorf("%v is not EINVAL", got)
	}
	edit := &fsops.EditError{Index: 2, Count: 3, Hint: "the first line is there"}
	got = overTheWire(&fs.PathError{Op: "edit", Path: "f", Err: edit})
	var gotEdit *fsops.EditError
	if !errors.As(got, &gotEdit) || *gotEdit != *edit {
		t.Errorf("got %#v, want %#v", got, edit)
	}
	if code := status.Code(ToStatus(edit)); code != codes.FailedPrecondition {
		t.Errorf("an edit that does not match has code %v", code)
	}
}

func TestErrorOfNoClassKeepsItsWords(t *testing.T) {
	got := overTheWire(errors.New("the moon is in the way"))
	if got == nil || got.Error() != "the moon is in the way" {
		t.Errorf("got %v", got)
	}
}

func TestErrorOfTheTransport(t *testing.T) {
	for code, want := range transportErrors {
		if got := FromStatus(status.Error(code, "from the transport")); !errors.Is(got, want) {
			t.Errorf("%v: %v is not %v", code, got, want)
		}
	}
}

func TestErrorFitsIntoSmallHeaders(t *testing.T) {
	huge := strings.Repeat("x", 1<<20)
	sent := &os.LinkError{Op: "rename", Old: huge, New: huge, Err: &fsops.PatternError{Pattern: huge, Msg: huge}}
	if n := proto.Size(status.Convert(ToStatus(sent)).Proto()); n > 8<<10 {
		t.Errorf("the status has %d bytes", n)
	}
	if err := overTheWire(&fs.PathError{Op: "open", Path: huge, Err: syscall.ENAMETOOLONG}); !errors.Is(err, syscall.ENAMETOOLONG) {
		t.Errorf("it lost its class: %.100v", err)
	}
}

func TestNilErrorStaysNil(t *testing.T) {
	if err := overTheWire(nil); err != nil {
		t.Error(err)
	}
}

// FuzzErrorSurvivesTheWire sends errors with any text. None may be lost because the
// wire refuses it.
func FuzzErrorSurvivesTheWire(f *testing.F) {
	f.Add("open", "a\xffb", "no \xc3 such")
	f.Add("", "", "")
	f.Fuzz(func(t *testing.T, op, path, msg string) {
		op = strings.ToValidUTF8(op, "?") // operations are our own words
		got := overTheWire(&fs.PathError{Op: op, Path: path, Err: fmt.Errorf("%s: %w", msg, syscall.ENOSPC)})
		if !errors.Is(got, syscall.ENOSPC) {
			t.Fatalf("%v is not ENOSPC", got)
		}
		var pathErr *fs.PathError
		path = string(cutText(path))
		if op != "" && (!errors.As(got, &pathErr) || !cmp.Equal([]string{pathErr.Op, pathErr.Path}, []string{op, path})) {
			t.Errorf("%#v does not name %q %q", got, op, path)
		}
	})
}
