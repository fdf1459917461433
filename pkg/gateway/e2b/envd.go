package e2b

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher"
)

// filesPath is where envd has the content of files.
const filesPath = "/files"

// envdCall is a request to the envd of a sandbox.
type envdCall struct {
	*gateway.Call
	face   *Face
	signed bool // the caller has no token, but a URL that was signed with one
}

type envdCallKey struct{}

// callOf returns the call that a context is of.
func callOf(ctx context.Context) *envdCall { return ctx.Value(envdCallKey{}).(*envdCall) }

// begin says what the call does, before it has an effect. The operation is like "process/Start".
func (c *envdCall) begin(ctx context.Context, operation string, d gateway.Detail) error {
	return c.Begin(ctx, "e2b."+operation, c.Sandbox(), d)
}

// task is what a call does in its sandbox.
type task struct {
	operation string // such as "process/Start"
	detail    gateway.Detail
	user      string // as whom it is to be done; "" for the sandbox's own
	fault     error  // of the request: nothing is done then
	asleep    bool   // the sandbox is neither woken for it nor kept awake
}

// do does a task, once the observers know of it.
func (c *envdCall) do(ctx context.Context, t task, do func(*launcher.Sandbox) error) error {
	if err := c.begin(ctx, t.operation, t.detail); err != nil {
		return err
	}
	if t.fault != nil {
		return t.fault
	}
	return c.Use(ctx, c.Sandbox(), !t.asleep, func(s *launcher.Sandbox) error {
		if err := checkUser(ctx, s, t.user); err != nil {
			return err
		}
		return do(s)
	})
}

// isOver reports whether the sandbox runs no more, or is about to end.
func (c *envdCall) isOver(ctx context.Context) bool {
	s, err := c.Find(ctx, c.Sandbox())
	return errors.Is(err, launcher.ErrNotFound) || err == nil && isOver(&s.Sandbox, time.Now())
}

func isOver(s *gateway.Sandbox, now time.Time) bool {
	state := launcher.State(s.State)
	return state != launcher.Running && state != launcher.Pending || !s.ExpiresAt.IsZero() && s.ExpiresAt.Before(now)
}

// errEnds tells clients that it is the sandbox that ends, whatever became of what they asked for.
var errEnds = gateway.Fail(http.StatusBadGateway, "agent_lost", "the sandbox ends, and its processes with it")

// envdHandler returns the handler of requests to envd, with an envdCall in their contexts.
func (f *Face) envdHandler() http.Handler {
	f.build.Do(func() {
		mux := http.NewServeMux()
		addFilesystem(mux)
		addRest(mux)
		newProcesses().addTo(mux)
		f.envd = mux
	})
	return f.envd
}

// serveSandbox passes a request to what stands for the envd of a sandbox, or to a server in it.
func (f *Face) serveSandbox(w http.ResponseWriter, r *http.Request, c *gateway.Call) {
	to, _ := addressOf(r, c.Address())
	r = withSandboxID(r, to)
	switch to.Port {
	case envdPort:
	case interpreterPort:
		why := c.Failure(r.Context(), errInterpreter)
		why.Status = http.StatusNotFound // its clients show the text of no other
		writeFailure(w, why)
		return
	default:
		c.ServePort(w, r, gateway.PortRequest{Sandbox: c.Sandbox(), Port: to.Port, Without: ownHeaders, Refuse: refusePort(r.Context(), to.Port)})
		return
	}
	if allowPages(w, r) {
		return
	}
	r = r.WithContext(context.WithValue(r.Context(), envdCallKey{}, &envdCall{Call: c, face: f, signed: r.Header.Get(headerAccessToken) == ""}))
	f.envdHandler().ServeHTTP(w, r)
}

// ownHeaders are none of a server's in a sandbox.
var ownHeaders = []string{headerSandbox, headerPort, headerAccessToken, headerTraffic}

var errInterpreter = gateway.Fail(http.StatusNotImplemented, "unsupported", "the code interpreter is not supported by this gateway: run code as a command")

// envdFailure answers a request to envd that is none of a Connect service. A sandbox that is not there is
// a bad gateway to E2B's clients.
func envdFailure(w http.ResponseWriter, r *http.Request, err error) {
	why := callOf(r.Context()).Failure(r.Context(), err)
	why.Status = envdStatus(why)
	writeMissed(w, why, missed(r.Context(), why.Status))
}

// refusePort returns what answers a request to a server in a sandbox that was not passed on.
func refusePort(ctx context.Context, port int) func(http.ResponseWriter, gateway.Failure) {
	return func(w http.ResponseWriter, why gateway.Failure) {
		if why.Status = envdStatus(why); why.Status == http.StatusInternalServerError {
			why.Status = http.StatusBadGateway
		}
		of := missed(ctx, why.Status)
		if of.SandboxID != "" && !isGone(why.Class) {
			of.Port = port
		}
		writeMissed(w, why, of)
	}
}

// envdStatus is the status by which envd's clients know a failure.
func envdStatus(why gateway.Failure) int {
	switch {
	case isGone(why.Class):
		return http.StatusBadGateway
	case why.Status == http.StatusUnprocessableEntity:
		return http.StatusBadRequest
	}
	return why.Status
}
