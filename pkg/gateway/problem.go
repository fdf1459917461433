package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/errclass"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// Problem is the answer to a call that failed: problem details (RFC 9457), with the class that
// podapi gives to the error.
type Problem struct {
	huma.ErrorModel
	// Class is a class of podapi in lower case, such as "not_exist", or of a launcher, such as
	// "no_sandbox".
	Class string `json:"class,omitempty" doc:"what kind of failure it is, for programs" example:"not_exist"`
	// Until is when there may be room, of a 429, if that is known.
	Until *time.Time `json:"until,omitempty" doc:"when a quota or budget that is used up may have room; missing if that is not known"`
	// Offset is of stdin_gap and stdin_closed.
	Offset *int64 `json:"offset,omitempty" doc:"how much input was taken, if other input was refused"`
	// ExecID is of a 503 to an exec, from a gateway that ends.
	ExecID string `json:"exec_id,omitempty" doc:"the command that runs on, if the gateway ended before it"`
}

// problemType is the type of errors in the document.
var problemType = reflect.TypeFor[Problem]()

// TransformSchema implements [huma.SchemaTransformer]: it says what is in every problem.
func (Problem) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	s.Required = []string{"status", "title", "detail", "class"}
	s.Properties["errors"].Nullable = false
	delete(s.Properties, "type") // about:blank, which goes without saying
	delete(s.Properties, "instance")
	return s
}

// problemOf returns the problem for an error that has a status.
func problemOf(err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	status := http.StatusInternalServerError
	if of, ok := errors.AsType[huma.StatusError](err); ok {
		status = of.GetStatus()
	}
	p := newProblem(status, classOf(status), err.Error())
	if of, ok := errors.AsType[*huma.ErrorModel](err); ok {
		p.Errors = of.Errors[:min(len(of.Errors), faultLimit)]
		for i, fault := range p.Errors {
			p.Errors[i] = &huma.ErrorDetail{Message: fault.Message, Location: fault.Location} // no value: it may be the whole body
		}
		if len(p.Errors) > 0 && p.Detail == "validation failed" { // as huma says
			p.Detail = p.Errors[0].Location + ": " + p.Errors[0].Message
		}
	}
	return p
}

// asProblem makes problems of huma's own errors.
func asProblem(ctx huma.Context, _ string, v any) (any, error) {
	if err, ok := v.(huma.StatusError); ok {
		p := problemOf(err)
		actOf(ctx.Context()).failed(p.Class)
		return p, nil
	}
	return v, nil
}

// classOf returns the class of an error of the gateway itself.
func classOf(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "unauthenticated"
	case http.StatusNotFound:
		return "not_exist"
	case http.StatusPreconditionFailed:
		return "changed"
	case http.StatusRequestEntityTooLarge:
		return "too_large"
	case http.StatusNotImplemented, http.StatusMethodNotAllowed:
		return "unsupported"
	case http.StatusServiceUnavailable:
		return "unavailable"
	case http.StatusRequestTimeout:
		return "deadline"
	}
	return "invalid"
}

// problem returns the answer for an error: one that has a status, and perhaps headers. It is how
// the act ends.
func (g *Gateway) problem(ctx context.Context, err error) error {
	err = g.explain(ctx, err)
	actOf(ctx).failed(problemOf(err).Class)
	return err
}

func (g *Gateway) explain(ctx context.Context, err error) error {
	if left, ok := errors.AsType[*leftRunning](err); ok {
		return left.problem()
	}
	if why := ended(context.Cause(ctx)); why != nil {
		err = why
	}
	if why := refusalOfContent(err); why != nil {
		err = why
	}
	if b, ok := errors.AsType[*busy](err); ok {
		return huma.ErrorWithHeaders(b.problem(), http.Header{"Retry-After": {wholeSeconds(b.wait)}})
	}
	if of, ok := errors.AsType[*refusal](err); ok {
		return of.problem()
	}
	if status, ok := errors.AsType[huma.StatusError](err); ok {
		return problemOf(status)
	}
	if of, ok := errors.AsType[*unobserved](err); ok {
		g.failing.Do(func() {
			g.Log.ErrorContext(ctx, "a call is not made, since an observer cannot record it", "error", of.error)
		})
		return errUnobserved.problem()
	}
	if _, ok := errors.AsType[*ofAll](err); ok {
		g.Log.ErrorContext(ctx, "cannot list the sandboxes", "error", err)
		return (&refusal{http.StatusServiceUnavailable, "unavailable", "the sandboxes cannot be listed"}).problem()
	}
	if e, ok := errors.AsType[*usedUp](err); ok {
		return e.problem()
	}
	class, status := classify(err)
	switch {
	case errors.Is(err, launcher.ErrNotReady):
		return huma.ErrorWithHeaders(newProblem(status, class, ownNames(ctx, detailOf(err))), http.Header{"Retry-After": {wholeSeconds(retryAfter)}})
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		class, status = "cancelled", http.StatusServiceUnavailable // nobody reads it
	case status == http.StatusInternalServerError:
		g.Log.ErrorContext(ctx, "a call failed for a reason of no known class", "error", err)
	}
	return newProblem(status, class, ownNames(ctx, detailOf(err)))
}

// ofAll is an error about all tenants' sandboxes, which no caller may read.
type ofAll struct{ error }

func (e *ofAll) Unwrap() error { return e.error }

func newProblem(status int, class, detail string) *Problem {
	return &Problem{ErrorModel: huma.ErrorModel{Status: status, Title: http.StatusText(status), Detail: detail}, Class: class}
}

// notAllowed is the answer to a call that the tenant's policy does not allow.
func notAllowed(format string, args ...any) error {
	return newProblem(http.StatusForbidden, "not_allowed", fmt.Sprintf(format, args...))
}

// invalid is the answer to a call that says something wrong.
func invalid(format string, args ...any) error {
	return newProblem(http.StatusUnprocessableEntity, "invalid", fmt.Sprintf(format, args...))
}

// launcherStatuses are the statuses of the classes of launchers' errors.
var launcherStatuses = map[string]int{
	"no_sandbox":       http.StatusNotFound,
	"paused":           http.StatusConflict,
	"ended":            http.StatusGone,
	"gone":             http.StatusGone,
	"not_kept":         http.StatusConflict,
	"no_lifetime":      http.StatusConflict,
	"deadline":         http.StatusConflict,
	"owned":            http.StatusConflict,
	"drift":            http.StatusConflict,
	"egress":           http.StatusNotImplemented,
	"isolation":        http.StatusNotImplemented,
	"image":            http.StatusUnprocessableEntity,
	"cannot_start":     http.StatusUnprocessableEntity,
	"crash_loop":       http.StatusUnprocessableEntity,
	"no_storage_class": http.StatusNotImplemented,
	"unschedulable":    http.StatusServiceUnavailable,
	"not_ready":        http.StatusServiceUnavailable,
	"rejected":         http.StatusUnprocessableEntity,
}

func classify(err error) (class string, status int) {
	if class := errclass.Of(err); class != "" {
		return class, launcherStatuses[class]
	}
	if errors.As(err, new(*launcher.SpecError)) {
		return "invalid", http.StatusUnprocessableEntity
	}
	if errors.As(err, new(*launcher.GitError)) {
		return "git", http.StatusUnprocessableEntity
	}
	of := wire.EncodeError(err).GetClass()
	name, _ := strings.CutPrefix(of.String(), "CLASS_")
	return strings.ToLower(name), statusOf(of)
}

// statusOf returns the HTTP status of a class.
func statusOf(c pb.Class) int {
	switch c {
	case pb.Class_CLASS_NOT_EXIST, pb.Class_CLASS_EXEC_EXPIRED:
		return http.StatusNotFound
	case pb.Class_CLASS_EXIST, pb.Class_CLASS_NOT_EMPTY, pb.Class_CLASS_BUSY, pb.Class_CLASS_CONFLICT,
		pb.Class_CLASS_STDIN_CLOSED, pb.Class_CLASS_PROCESS_DONE, pb.Class_CLASS_EDIT,
		pb.Class_CLASS_IS_DIRECTORY, pb.Class_CLASS_NOT_DIRECTORY, pb.Class_CLASS_NOT_REGULAR:
		return http.StatusConflict
	case pb.Class_CLASS_PERMISSION, pb.Class_CLASS_READ_ONLY, pb.Class_CLASS_PROTECTED:
		return http.StatusForbidden
	case pb.Class_CLASS_CHANGED:
		return http.StatusPreconditionFailed
	case pb.Class_CLASS_NO_SPACE, pb.Class_CLASS_QUOTA:
		return http.StatusInsufficientStorage
	case pb.Class_CLASS_TOO_LARGE:
		return http.StatusRequestEntityTooLarge
	case pb.Class_CLASS_INVALID, pb.Class_CLASS_PATTERN, pb.Class_CLASS_NAME_TOO_LONG, pb.Class_CLASS_LOOP,
		pb.Class_CLASS_CHECKSUM, pb.Class_CLASS_UNSAFE_ARCHIVE, pb.Class_CLASS_ARCHIVE,
		pb.Class_CLASS_NOT_EXECUTABLE, pb.Class_CLASS_CROSS_DEVICE:
		return http.StatusUnprocessableEntity
	case pb.Class_CLASS_UNSUPPORTED:
		return http.StatusNotImplemented
	case pb.Class_CLASS_DEADLINE:
		return http.StatusGatewayTimeout
	case pb.Class_CLASS_UNAVAILABLE, pb.Class_CLASS_EXHAUSTED, pb.Class_CLASS_STALLED:
		return http.StatusServiceUnavailable
	case pb.Class_CLASS_AGENT_LOST, pb.Class_CLASS_CUT, pb.Class_CLASS_UNAUTHENTICATED, pb.Class_CLASS_IO:
		return http.StatusBadGateway
	}
	return http.StatusInternalServerError
}
