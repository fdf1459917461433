package agentsandbox

import (
	"net/http"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/internal/faces"
	"github.com/podagent/podagent/pkg/gateway/internal/rawgrpc"
)

// refuse answers a request that failed before it was answered, in the words that its client knows.
func refuse(w http.ResponseWriter, r *http.Request, to *route, why gateway.Failure) {
	why.Status = statusOf(why)
	if isGRPC(r) {
		stream := rawgrpc.Accept(w, r, messageSilence)
		defer stream.Close()
		stream.End(grpcStatus(why))
		return
	}
	faces.SetRetryAfter(w.Header(), why.RetryAfter)
	if to.isRuntime() && isV1(to.path) {
		faces.WriteJSON(w, why.Status, v1Error{v1Code(why.Status), why.Text})
		return
	}
	faces.WriteJSON(w, why.Status, detail{why.Text})
}

// detail is the body of an answer of the router, and of the Python runtime, that is an error.
type detail struct {
	Detail string `json:"detail"`
}

// v1Error is the body of an answer of sandboxd's REST that is an error.
type v1Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// isV1 reports whether a path is one of sandboxd's REST.
func isV1(path string) bool { return strings.HasPrefix(path, "/v1/") }

// statusOf is the status by which clients know a failure. A sandbox that is not there is 410: to clients
// 404 is a file's, and they repeat a request after 502.
func statusOf(why gateway.Failure) int {
	switch {
	case isGone(why.Class):
		return http.StatusGone
	case why.Status == http.StatusUnprocessableEntity, why.Class == "not_directory", why.Class == "is_directory":
		return http.StatusBadRequest
	}
	return why.Status
}

// isGone reports whether an error of this class says that the sandbox is not there to be worked in.
func isGone(class string) bool {
	switch class {
	case "no_sandbox", "paused", "ended", "gone":
		return true
	}
	return false
}

// v1Code is sandboxd's code for a status.
func v1Code(status int) string {
	if code, ok := v1Codes[status]; ok {
		return code
	}
	return "INTERNAL"
}

var v1Codes = map[int]string{
	http.StatusBadRequest:                   "INVALID_ARGUMENT",
	http.StatusUnauthorized:                 "UNAUTHENTICATED",
	http.StatusForbidden:                    "PERMISSION_DENIED",
	http.StatusNotFound:                     "NOT_FOUND",
	http.StatusMethodNotAllowed:             "UNIMPLEMENTED",
	http.StatusRequestTimeout:               "DEADLINE_EXCEEDED",
	http.StatusConflict:                     "CONFLICT",
	http.StatusGone:                         "UNAVAILABLE",
	http.StatusPreconditionFailed:           "FAILED_PRECONDITION",
	http.StatusRequestEntityTooLarge:        "RESOURCE_EXHAUSTED",
	http.StatusRequestedRangeNotSatisfiable: "INVALID_ARGUMENT",
	http.StatusTooManyRequests:              "RESOURCE_EXHAUSTED",
	http.StatusNotImplemented:               "UNIMPLEMENTED",
	http.StatusBadGateway:                   "UNAVAILABLE",
	http.StatusServiceUnavailable:           "UNAVAILABLE",
	http.StatusGatewayTimeout:               "DEADLINE_EXCEEDED",
	http.StatusInsufficientStorage:          "RESOURCE_EXHAUSTED",
}

// grpcStatus is the status of gRPC for a failure.
func grpcStatus(why gateway.Failure) *status.Status {
	return status.New(codeOf(why), strings.ToValidUTF8(why.Text[:min(len(why.Text), statusText)], "\uFFFD"))
}

// codeOf is gRPC's code for a failure. NotFound is a command's or a process's.
func codeOf(why gateway.Failure) codes.Code {
	switch why.Status = statusOf(why); {
	case why.Class == "cancelled":
		return codes.Canceled
	case why.Class == "exist":
		return codes.AlreadyExists
	}
	if code, ok := grpcCodes[why.Status]; ok {
		return code
	}
	return codes.Internal
}

var grpcCodes = map[int]codes.Code{
	http.StatusBadRequest:            codes.InvalidArgument,
	http.StatusUnauthorized:          codes.Unauthenticated,
	http.StatusForbidden:             codes.PermissionDenied,
	http.StatusNotFound:              codes.NotFound,
	http.StatusRequestTimeout:        codes.DeadlineExceeded,
	http.StatusConflict:              codes.FailedPrecondition,
	http.StatusGone:                  codes.FailedPrecondition,
	http.StatusRequestEntityTooLarge: codes.ResourceExhausted,
	http.StatusTooManyRequests:       codes.ResourceExhausted,
	http.StatusNotImplemented:        codes.Unimplemented,
	http.StatusBadGateway:            codes.Unavailable,
	http.StatusServiceUnavailable:    codes.Unavailable,
	http.StatusGatewayTimeout:        codes.DeadlineExceeded,
	http.StatusInsufficientStorage:   codes.ResourceExhausted,
}
