package remote

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podagent/podagent/pkg/launcher/errclass"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// likeHTTP are the statuses of HTTP with which a gateway answers the same error.
var likeHTTP = map[codes.Code]int{
	codes.Unauthenticated:    http.StatusUnauthorized,
	codes.PermissionDenied:   http.StatusForbidden,
	codes.NotFound:           http.StatusNotFound,
	codes.FailedPrecondition: http.StatusConflict,
	codes.InvalidArgument:    http.StatusUnprocessableEntity,
	codes.ResourceExhausted:  http.StatusTooManyRequests,
	codes.Unimplemented:      http.StatusNotImplemented,
	codes.Unavailable:        http.StatusServiceUnavailable,
	codes.DeadlineExceeded:   http.StatusGatewayTimeout,
}

// fromStatus returns the *[Error] of a call that the gateway itself has refused. Another error it returns
// as it is: of the agent, or of the way.
func fromStatus(err error) error {
	st, ok := status.FromError(err)
	if !ok || err == nil {
		return err
	}
	var e *Error
	var retry time.Duration
	for _, detail := range st.Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			if d.Domain == errclass.Domain && classExp.MatchString(d.Reason) {
				e = &Error{Status: likeHTTP[st.Code()], Class: d.Reason, Detail: cut(st.Message())}
				e.Until, _ = time.Parse(time.RFC3339, d.Metadata["until"])
			}
		case *errdetails.RetryInfo:
			retry = d.RetryDelay.AsDuration()
		}
	}
	if e == nil {
		return err
	}
	e.retry, e.cause = retry, causeOf(e.Class, e.Status)
	if st.Code() == codes.Unavailable { // as if the connection were cut: who waits for a command tries again
		e.cause = errors.Join(e.cause, wire.ErrUnavailable)
	}
	if detail := wire.Detail(err); detail != nil && detail.Class != 0 {
		e.cause = errors.Join(e.cause, wire.DecodeError(detail)) // the class that clients know who know no gateway
	}
	return e
}

// refused returns the *[Error] of a call that was refused by the gateway itself, or by what is in its place.
// Another error it returns as it is.
func (l *Launcher) refused(err error) error {
	if err == nil {
		return nil
	}
	if e := l.notPassed(err); e != nil {
		return e
	}
	return fromStatus(err)
}

// notPassed returns the error of a call that a proxy before the gateway did not pass on; nil for another
// error, also that of a proxy that may reach a gateway soon. gRPC has only words for it.
func (l *Launcher) notPassed(err error) *Error {
	st, ok := status.FromError(err)
	if !ok || len(st.Details()) > 0 {
		return nil
	}
	e := &Error{cause: podapi.ErrProtocol, retry: -1}
	if st.Code() == codes.Unavailable && strings.Contains(st.Message(), "looked like an HTTP/1.1 header") {
		e.Detail, e.cause = l.noHTTP2(), podapi.ErrUnavailable
		return e
	}
	if st.Code() == codes.Unavailable { // of 429, and of 502 to 504
		return nil
	}
	if _, err := fmt.Sscanf(st.Message(), "unexpected HTTP status code received from server: %d", &e.Status); err != nil {
		return nil
	}
	if e.Status == http.StatusUnauthorized {
		e.cause = podapi.ErrUnauthenticated
	}
	e.Detail = fmt.Sprintf("what answers at %s does not pass on gRPC, which calls in a sandbox take: %d %s", l.base, e.Status, http.StatusText(e.Status))
	return e
}

func (l *Launcher) noHTTP2() string {
	return fmt.Sprintf("what answers at %s does not speak HTTP/2, which calls in a sandbox take", l.base)
}
