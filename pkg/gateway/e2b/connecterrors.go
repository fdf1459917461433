package e2b

import (
	"context"
	"errors"
	"net/http"

	"connectrpc.com/connect"

	"github.com/podagent/podagent/pkg/gateway"
)

// connectFailure returns an error as Connect has it; nil for nil. It is how the call is answered.
func (c *envdCall) connectFailure(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	return connectError(ctx, c.Failure(ctx, err))
}

// connectError returns a failure as Connect has it, which is how the call is answered, also if its
// sandbox is not there.
func connectError(ctx context.Context, why gateway.Failure) error {
	if isGone(why.Class) {
		refuseGone(ctx, why.Text)
	}
	return connect.NewError(codeOf(why.Status, why.Class), errors.New(why.Text))
}

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
	case class == classClosing, class == "stalled", status == http.StatusServiceUnavailable:
		return connect.CodeAborted // it may go well the next time
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
	http.StatusGatewayTimeout:        connect.CodeDeadlineExceeded,
}

// isGone reports whether an error of this class says that the sandbox is not there to be worked in.
func isGone(class string) bool {
	switch class {
	case "no_sandbox", "paused", "ended", "gone", "agent_lost":
		return true
	}
	return false
}

// errClosing ends streams, which go on with another gateway. To SDKs it is not as if the sandbox were gone.
var errClosing = gateway.Fail(http.StatusServiceUnavailable, classClosing, "this gateway ends: call again, and another one goes on")

const classClosing = "closing"
