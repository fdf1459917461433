package e2b

import (
	"context"
	"errors"
	"net/http"

	"connectrpc.com/connect"
)

// codeOf returns the code of Connect for an error that the gateway tells by an HTTP status and a
// class. What SDKs make of it: not_found, invalid_argument and unauthenticated are errors of these
// names, resource_exhausted says that there were too many requests, and unavailable that the
// sandbox is not there.
func codeOf(status int, class string) connect.Code {
	switch {
	case isGone(class):
		return connect.CodeUnavailable
	case class == "exist":
		return connect.CodeAlreadyExists
	case class == "cancelled":
		return connect.CodeCanceled
	}
	if code, ok := codes[status]; ok {
		return code
	}
	return connect.CodeInternal
}

var codes = map[int]connect.Code{
	http.StatusBadRequest:            connect.CodeInvalidArgument,
	http.StatusUnauthorized:          connect.CodeUnauthenticated,
	http.StatusForbidden:             connect.CodePermissionDenied,
	http.StatusNotFound:              connect.CodeNotFound,
	http.StatusRequestTimeout:        connect.CodeDeadlineExceeded,
	http.StatusConflict:              connect.CodeFailedPrecondition,
	http.StatusPreconditionFailed:    connect.CodeFailedPrecondition,
	http.StatusRequestEntityTooLarge: connect.CodeInvalidArgument,
	http.StatusUnprocessableEntity:   connect.CodeInvalidArgument,
	http.StatusTooManyRequests:       connect.CodeResourceExhausted,
	http.StatusNotImplemented:        connect.CodeUnimplemented,
	http.StatusServiceUnavailable:    connect.CodeUnavailable,
	http.StatusGatewayTimeout:        connect.CodeDeadlineExceeded,
	http.StatusInsufficientStorage:   connect.CodeInternal,
}

// isGone reports whether an error of this class says that the sandbox is not there to be worked in.
func isGone(class string) bool {
	switch class {
	case "no_sandbox", "paused", "ended", "gone":
		return true
	}
	return false
}

// connectError returns an error as Connect has it, of which the gateway says the status, the class
// and the text. It is how the call is answered, also if its sandbox is not there.
func connectError(ctx context.Context, status int, class, text string) error {
	if isGone(class) {
		refuseGone(ctx, text)
	}
	return connect.NewError(codeOf(status, class), errors.New(text))
}

// invalid is the answer to a call that says something wrong.
func invalid(text string) error {
	return connect.NewError(connect.CodeInvalidArgument, errors.New(text))
}

// notSupported is the answer to a call for what sandboxes here do not have.
func notSupported(text string) error {
	return connect.NewError(connect.CodeUnimplemented, errors.New(text))
}
