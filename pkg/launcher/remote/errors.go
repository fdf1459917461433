package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/errclass"
	"github.com/podagent/podagent/pkg/podapi"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// Error says why a gateway did not do what it was asked for. It wraps the error that its class stands
// for, of package launcher or podapi: [podapi.ErrUnauthenticated] for a token that is not valid.
type Error struct {
	// Status is that of the HTTP response; 0 if no gateway answered.
	Status int
	// Class says what kind of failure it is, such as no_sandbox, not_allowed, quota_exceeded or
	// budget_exceeded; empty if what answered is no gateway.
	Class string
	// Detail is the gateway's text.
	Detail string
	// Until is when a quota or budget that is used up may have room; zero if that is not known.
	Until time.Time

	retry time.Duration // when to try again; negative for never, zero for soon
	sent  bool          // the request may have reached a gateway that did not answer
	cause error
}

func (e *Error) Error() string {
	if e.Until.IsZero() {
		return e.Detail
	}
	return fmt.Sprintf("%s: there may be room at %s", e.Detail, e.Until.UTC().Format(time.RFC3339))
}

// Unwrap returns the error that the class stands for.
func (e *Error) Unwrap() error { return e.cause }

// absent reports whether there was no gateway to answer: a proxy's 504 says that one took long.
func (e *Error) absent() bool {
	return e.Status == 0 || e.Class == "" && e.Status != http.StatusGatewayTimeout
}

// problem is what a gateway answers in place of a result (RFC 9457).
type problem struct {
	Detail string    `json:"detail"`
	Class  string    `json:"class"`
	Until  time.Time `json:"until"`
	Errors []struct {
		Location string `json:"location"`
		Message  string `json:"message"`
	} `json:"errors"`
}

// classExp is what classes look like, of newer gateways, too.
var classExp = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)

// refusal returns the error of a response that is no success, with its body.
func (l *Launcher) refusal(r *http.Response, body []byte) *Error {
	e := &Error{Status: r.StatusCode, retry: -1}
	var p problem
	if err := json.Unmarshal(body, &p); err != nil || !classExp.MatchString(p.Class) || !isJSON(r) {
		return l.notOfGateway(r)
	}
	e.Class, e.Detail, e.Until = p.Class, cut(p.Detail), p.Until
	e.cause = causeOf(e.Class, e.Status)
	if len(p.Errors) > 0 {
		e.Detail = cut(strings.TrimPrefix(p.Errors[0].Location, "body.") + ": " + p.Errors[0].Message)
	}
	switch after := retryAfter(r); {
	case e.Status == http.StatusServiceUnavailable && after > 0:
		e.retry = after
	case e.Status == http.StatusTooManyRequests && (e.Class == "rate" || e.Class == "streams"):
		e.retry = after
	}
	return e
}

// notOfGateway returns the error of an answer of another program, such as a proxy before the gateway.
func (l *Launcher) notOfGateway(r *http.Response) *Error {
	e := &Error{Status: r.StatusCode, cause: podapi.ErrProtocol, retry: -1}
	said := fmt.Sprintf("%d %s", r.StatusCode, http.StatusText(r.StatusCode))
	switch kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); {
	case isProxyAlone(e.Status):
		e.cause, e.retry, e.sent = podapi.ErrUnavailable, 0, true // the proxy may have sent it on
		e.Detail = fmt.Sprintf("the proxy at %s reaches no gateway: %s", l.base, said)
		return e
	case e.Status == http.StatusBadRequest && !l.secure:
		said += ", as servers say that expect https"
	case e.Status/100 == 3:
		said += " to " + target(r)
	case kind != "":
		said += ", " + kind
	}
	if e.Status == http.StatusUnauthorized {
		e.cause = podapi.ErrUnauthenticated
	}
	e.Detail = cut(fmt.Sprintf("what answers at %s is no gateway: %s", l.base, said))
	return e
}

// isProxyAlone reports whether a proxy answers with a status when it reaches no gateway.
func isProxyAlone(status int) bool {
	return status == http.StatusBadGateway || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout
}

// target returns where an answer sends the caller, without what may be a secret of it.
func target(r *http.Response) string {
	to, err := r.Location()
	if err != nil {
		return "nowhere"
	}
	return fmt.Sprintf("%s://%s", to.Scheme, to.Host)
}

// causeOf returns the error of a class; nil if it has none.
func causeOf(class string, status int) error {
	if class == "deadline" && status == http.StatusGatewayTimeout {
		return context.DeadlineExceeded // not the launcher's ErrDeadline
	}
	if err := errclass.Error(class); err != nil {
		return err
	}
	if known, ok := pb.Class_value["CLASS_"+strings.ToUpper(class)]; ok && known != 0 {
		return wire.DecodeError(&pb.Error{Class: pb.Class(known)})
	}
	return nil
}

// cut bounds a text of the gateway's.
func cut(text string) string {
	if len(text) > detailLimit {
		text = text[:detailLimit] + "…"
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// strange returns the error of an answer that no gateway gives.
func strange(format string, args ...any) error {
	return &Error{Status: http.StatusOK, Detail: fmt.Sprintf(format, args...), cause: podapi.ErrProtocol, retry: -1}
}

// isNotFound reports whether there is no sandbox of the name.
func isNotFound(err error) bool { return errors.Is(err, launcher.ErrNotFound) }

// mayBeDone reports whether a request may have been carried out, by one of its tries.
func mayBeDone(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.sent
}

// specFields are the fields of a Spec by what a gateway calls them.
var specFields = []struct{ name, field string }{
	{"id", "ID"},
	{"image", "Pod.Image"},
	{"env", "Env"},
	{"labels", "Labels"},
	{"pool", "Take.Pool"},
	{"volumes", "Pod.Volumes"},
	{"lifetime_seconds", "Pod.Lifetime"},
	{"additional_seconds", "Pod.Lifetime"},
	{"at", "Pod.Lifetime"},
	{"idle_seconds", "Pod.IdleTimeout"},
	{"idle", "Pod.IdleIgnoresCommands"},
	{"cpu or memory", "Pod.Resources"},
	{"cpu", "Pod.Resources"},
	{"memory", "Pod.Resources"},
	{"storage, keep or auto_pause", "Pod.Workspace"},
	{"storage", "Pod.Workspace"},
	{"keep", "Pod.Workspace.Keep"},
	{"git.url", "Git.URL"},
	{"git.ref", "Git.Ref"},
	{"git.username", "Git.Username"},
	{"git.password", "Git.Password"},
}

// specError returns what a gateway says of a field as a *[launcher.SpecError]; err if it says nothing of one.
func specError(err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Class != "invalid" {
		return err
	}
	if text, ok := strings.CutPrefix(e.Detail, "invalid sandbox spec: "); ok {
		field, said, _ := strings.Cut(text, " ")
		return &launcher.SpecError{Field: field, Msg: said}
	}
	for _, f := range specFields {
		switch rest, ok := strings.CutPrefix(e.Detail, f.name); {
		case !ok || rest == "":
		case rest[0] == ' ': // a sentence
			return &launcher.SpecError{Field: f.field, Msg: rest[1:]}
		case rest[0] == ':':
			return &launcher.SpecError{Field: f.field, Msg: "is refused" + rest}
		case rest[0] == '[': // an element of a list
			return &launcher.SpecError{Field: f.field, Msg: "has " + rest}
		}
	}
	return err
}

// gitError returns what a gateway says of a repository as a *[launcher.GitError]; err if it says something
// else.
func gitError(err error, git *launcher.Git) error {
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Class != "git" || git == nil {
		return err
	}
	said := &launcher.GitError{URL: git.URL, Ref: git.Ref}
	if _, text, ok := strings.Cut(e.Detail, said.Error()); ok {
		said.Msg = text
		return said
	}
	return err
}
